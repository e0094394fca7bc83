//! [`JoinWalk`]: one execution of a join, a short blocking step at a time: the walk over the tiles of the join matrix, and over the rows that
//! come out without a match. What becomes of the matches is the affair of its [`MatchSink`]: rows, or partial states of groups.
//!
//! ```text
//! NextRight ─► Tiles ─► (Pairs ─► Tiles)* ─► RightEnd ─► NextRight        for each right chunk
//! NextRight ─► LeftEnd ─► Done                                           once the right side is at its end
//! ```

use std::sync::Arc;

use crate::device::data::structures::Flags;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::chunk::DeviceChunk;
use crate::exec::input::chunk::InputChunk;
use crate::exec::input::prefetch::Prefetched;
use crate::exec::join::needed_columns::NeededColumns;
use crate::exec::join::piece_size::PieceSize;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal, Step};
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::spec::join::JoinSpec;

/// Where a walk is. `P`: a tile whose pairs come piece by piece.
#[derive(Debug)]
pub(crate) enum State<P> {
    /// A right chunk is wanted.
    NextRight,
    /// The next tile of the right chunk at hand.
    Tiles,
    /// The next pairs of a tile.
    Pairs(Box<P>),
    /// Rows of the right chunk at hand that come out by their flags, from row `next` on.
    RightEnd {
        next: usize,
    },
    /// Rows of left chunk `chunk` that come out by their flags, from row `next` on.
    LeftEnd {
        chunk: usize,
        next: usize,
    },
    Done,
}

/// What becomes of the matches of a join. Each method does a bounded amount of work and returns the output of it, if any. One that fails leaves
/// a state of the walk from which it can be done once more, or [`State::Done`].
pub(crate) trait MatchSink: Sized + Send + 'static {
    /// A tile whose pairs come piece by piece.
    type Pairs: Send;

    /// Bytes that a pair takes beside the columns that are needed of both sides.
    fn pair_bytes(&self) -> usize {
        0
    }

    /// Looks at a right chunk before its tiles. Whether they are wanted.
    fn wants_tiles(_: &mut JoinWalk<Self>, _: &InputChunk) -> Result<bool> {
        Ok(true)
    }

    /// After the last right chunk. Whether rows of the left side come out by their flags.
    fn end_right(walk: &mut JoinWalk<Self>) -> Result<bool> {
        Ok(walk.spec.flags_side(Side::Left))
    }

    /// The next tile of the right chunk at hand.
    fn next_tile(walk: &mut JoinWalk<Self>, step: &Step<'_>) -> Result<Vec<DeviceChunk>>;

    /// The next pairs of a tile.
    fn next_pairs(
        walk: &mut JoinWalk<Self>,
        step: &Step<'_>,
        pairs: Box<Self::Pairs>,
    ) -> Result<Vec<DeviceChunk>>;

    /// Rows of the right chunk at hand by their flags, from row `next` on.
    fn next_right_rows(
        walk: &mut JoinWalk<Self>,
        step: &Step<'_>,
        next: usize,
    ) -> Result<Vec<DeviceChunk>>;

    /// Rows of left chunk `chunk` by their flags, from row `next` on.
    fn next_left_rows(
        walk: &mut JoinWalk<Self>,
        step: &Step<'_>,
        chunk: usize,
        next: usize,
    ) -> Result<Vec<DeviceChunk>>;

    /// After each step, with what it made.
    fn after_step(
        _: &mut JoinWalk<Self>,
        made: Result<Vec<DeviceChunk>>,
    ) -> Result<Vec<DeviceChunk>> {
        made
    }

    /// Takes what it holds out of the memory pool.
    fn leave_pool(_: &mut JoinWalk<Self>) -> Result<()> {
        Ok(())
    }
}

/// What a walk is made of. Making it may block.
pub(crate) struct WalkInputs {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) spec: Arc<JoinSpec>,
    /// All left chunks.
    pub(crate) left: Vec<InputChunk>,
    pub(crate) spilling: Option<Spilling>,
    pub(crate) metrics: DeviceMetrics,
}

pub(crate) struct JoinWalk<S: MatchSink> {
    pub(crate) spec: Arc<JoinSpec>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) matrix: Matrix,
    pub(crate) state: State<S::Pairs>,
    /// A flag for each row of each left chunk, and of the right chunk at hand: it has a match. Of the sides whose flags the join needs.
    pub(crate) left_flags: Vec<Flags>,
    pub(crate) right_flags: Option<Flags>,
    pub(crate) size: PieceSize,
    pub(crate) sink: S,
    pub(crate) metrics: DeviceMetrics,
}

impl<S: MatchSink> JoinWalk<S> {
    /// The walk over the left chunks and the right ones to come, of whose columns the sink reads `arguments` beside the join's output.
    pub(crate) fn new(
        inputs: WalkInputs,
        arguments: impl Iterator<Item = (Side, usize)>,
        sink: S,
    ) -> Result<Self> {
        let WalkInputs {
            device,
            spec,
            left,
            spilling,
            metrics,
        } = inputs;
        let needed = NeededColumns::of(&spec, arguments);
        let left_flags = match spec.flags_side(Side::Left) {
            true => left
                .iter()
                .map(|chunk| step::flags(device.as_ref(), chunk.rows()))
                .collect::<Result<_>>()?,
            false => vec![],
        };
        let matrix = Matrix::new(
            Arc::clone(&device),
            Arc::clone(&spec),
            needed,
            left,
            spilling,
            metrics.clone(),
        );
        let mut size = PieceSize::new(device.as_ref());
        // For the case that no right chunk comes.
        size.fit(device.as_ref(), matrix.row_bytes(None)?);
        Ok(Self {
            spec,
            device,
            matrix,
            state: State::NextRight,
            left_flags,
            right_flags: None,
            size,
            sink,
            metrics,
        })
    }

    /// Whether [`Self::push_right`] or [`Self::end_right`] must come before the next step.
    pub(crate) fn wants_right(&self) -> bool {
        matches!(self.state, State::NextRight)
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Columns of the right side that the device needs.
    pub(crate) fn needed_right(&self) -> &[Need] {
        self.matrix.needed_right()
    }

    /// Uploads what can be before a right chunk is there.
    pub(crate) fn preload(&mut self) -> Result<()> {
        let device = Arc::clone(&self.device);
        step::shared(device.as_ref(), OnRefusal::Shrink, |_| {
            self.matrix.preload()
        })
    }

    pub(crate) fn push_right(&mut self, arriving: Prefetched) -> Result<()> {
        if !S::wants_tiles(self, &arriving.chunk)? {
            return Ok(());
        }
        let chunk = &arriving.chunk;
        self.right_flags = match self.spec.flags_side(Side::Right) {
            true => Some(step::flags(self.device.as_ref(), chunk.rows())?),
            false => None,
        };
        let row_bytes = self.matrix.row_bytes(Some(chunk))? + self.sink.pair_bytes();
        self.size.fit(self.device.as_ref(), row_bytes);
        self.matrix.push_right(arriving)?;
        self.state = State::Tiles;
        Ok(())
    }

    /// There are no more right chunks.
    pub(crate) fn end_right(&mut self) -> Result<()> {
        self.state = State::Done;
        if S::end_right(self)? {
            self.state = State::LeftEnd { chunk: 0, next: 0 };
        }
        Ok(())
    }

    /// Takes what it can to files, as somebody else found the memory pool full.
    pub(crate) fn leave_pool(&mut self) -> Result<()> {
        self.matrix.leave_pool()?;
        S::leave_pool(self)
    }

    /// Does a bounded amount of work; returns the output that it made, if any.
    pub(crate) fn step(&mut self) -> Result<Vec<DeviceChunk>> {
        let device = Arc::clone(&self.device);
        let made = step::retried(device.as_ref(), self, Self::try_step, |walk| {
            !walk.is_done()
        });
        self.after_step(made)
    }

    /// The same while the reader works on the output of the last step. Where there is no memory for both, nothing comes out: the next step does
    /// it, with what the reader gives back, before anything is cut or evicted.
    pub(crate) fn step_concurrently(&mut self) -> Result<Vec<DeviceChunk>> {
        let device = Arc::clone(&self.device);
        let made = step::shared(device.as_ref(), OnRefusal::Defer, |step| {
            self.try_step(step)
        });
        let made = match made {
            Err(error) if error.is_divisible() && !self.is_done() => Ok(vec![]),
            made => made,
        };
        self.after_step(made)
    }

    fn after_step(&mut self, made: Result<Vec<DeviceChunk>>) -> Result<Vec<DeviceChunk>> {
        self.matrix.count_lazy_uploads();
        self.metrics
            .peak_device_bytes
            .set_max(self.device.budget().peak() as usize);
        S::after_step(self, made)
    }

    /// One that fails leaves a state from which it can be done once more, or [`State::Done`].
    fn try_step(&mut self, step: &Step<'_>) -> Result<Vec<DeviceChunk>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::NextRight => {
                self.state = State::NextRight;
                Ok(vec![])
            }
            State::Tiles => {
                self.state = State::Tiles;
                S::next_tile(self, step)
            }
            State::Pairs(pairs) => S::next_pairs(self, step, pairs),
            State::RightEnd { next } => {
                self.state = State::RightEnd { next };
                S::next_right_rows(self, step, next)
            }
            State::LeftEnd { chunk, next } => {
                self.state = State::LeftEnd { chunk, next };
                S::next_left_rows(self, step, chunk, next)
            }
            State::Done => Ok(vec![]),
        }
    }

    /// The right chunk at hand met all left rows.
    pub(crate) fn end_tiles(&mut self) {
        match self.spec.flags_side(Side::Right) {
            true => self.state = State::RightEnd { next: 0 },
            false => self.end_right_chunk(),
        }
    }

    /// The right chunk at hand is done.
    pub(crate) fn end_right_chunk(&mut self) {
        self.right_flags = None;
        self.matrix.take_right();
        self.state = State::NextRight;
    }

    /// The flags of `side`'s chunk, and the flag of the tile's first row.
    pub(crate) fn flags(&self, side: Side, tile: &ProbedTile) -> Result<(&Flags, usize)> {
        let flags = match side {
            Side::Left => self.left_flags.get(tile.left_chunk),
            Side::Right => self.right_flags.as_ref(),
        };
        let flags = flags.ok_or_else(|| BowtieError::Internal("flags were not made".into()))?;
        Ok((flags, tile.first(side)))
    }

    /// Answers a refusal of the pieces of a step, of which nothing was made then (`None`): they are shorter from now on, or something was
    /// evicted.
    pub(crate) fn or_shorter<T>(&mut self, step: &Step<'_>, made: Result<T>) -> Result<Option<T>> {
        match made {
            Err(error) if step.may_shrink(&error) => {
                match self.size.halve() || (error.is_out_of_device_memory() && self.matrix.evict())
                {
                    true => Ok(None),
                    false => Err(error),
                }
            }
            Err(error) if error.is_out_of_host_memory() && self.matrix.leave_pool_once()? => {
                Ok(None)
            }
            made => {
                let made = made?;
                self.matrix.left_pool = false;
                self.size.made();
                Ok(Some(made))
            }
        }
    }
}
