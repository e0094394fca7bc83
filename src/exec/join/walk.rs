//! [`JoinWalk`]: the blocking part of a join, a state machine of short steps. In: all left chunks, then one right chunk
//! after the other. It walks the tiles of the join matrix, and then the rows that are emitted by their flags (unmatched
//! rows of outer joins, rows of semi and mark joins). Its [`MatchSink`] makes output rows of the matches, or partial
//! states of groups.
//!
//! ```text
//! NextRight ─► Tiles ─► (Pairs ─► Tiles)* ─► RightEnd ─► NextRight        for each right chunk
//! NextRight ─► LeftEnd ─► Done                                           after the last right chunk
//! ```

use std::sync::Arc;

use crate::device::data::structures::Flags;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::chunk::DeviceChunk;
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::needed_columns::NeededColumns;
use crate::exec::join::piece_size::{PieceSize, STEP_BYTES};
use crate::exec::join::reduction::Reduction;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::join::tiles::tile::Tile;
use crate::exec::memory::on_request::Evictable;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal, Step};
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::spec::join::JoinSpec;

/// The part of the budget that a tile leaves free for pieces of its matches, as a divisor; and the part of these that a small tile takes.
const ROOM_FOR_PIECES: u64 = 8;

/// The state of a walk. `P` is a tile whose matches are expanded piece by piece.
#[derive(Debug)]
pub(crate) enum State<P> {
    /// The walk needs the next right chunk.
    NextRight,
    /// The next tile of the current right chunk.
    Tiles,
    /// The next piece of a tile's matches.
    Pairs(Box<P>),
    /// Rows of the current right chunk that are emitted by their flags, from row `next` on.
    RightEnd {
        next: usize,
    },
    /// Rows of left chunk `chunk` that are emitted by their flags, from row `next` on.
    LeftEnd {
        chunk: usize,
        next: usize,
    },
    Done,
}

/// What a join makes of its matches. Each method does a bounded amount of work and returns the output, if any. A method
/// that fails leaves the walk in a state from which it can be retried, or in [`State::Done`].
pub(crate) trait MatchSink: Sized + Send + 'static {
    /// A tile whose matches are expanded piece by piece.
    type Pairs: Send;

    /// Bytes of a match beside the needed columns of both sides.
    fn pair_bytes(&self) -> usize {
        0
    }

    /// Inspects a right chunk before its tiles. Returns whether the tiles are needed.
    fn wants_tiles(_: &mut JoinWalk<Self>, _: &InputChunk) -> Result<bool> {
        Ok(true)
    }

    /// Called after the last right chunk. Returns whether rows of the left side are emitted by their flags.
    fn end_right(walk: &mut JoinWalk<Self>) -> Result<bool> {
        Ok(walk.spec.flags_side(Side::Left))
    }

    /// Joins the next tile of the current right chunk.
    fn next_tile(walk: &mut JoinWalk<Self>, step: &Step<'_>) -> Result<Vec<DeviceChunk>>;

    /// Makes the next piece of a tile's matches.
    fn next_pairs(
        walk: &mut JoinWalk<Self>,
        step: &Step<'_>,
        pairs: Box<Self::Pairs>,
    ) -> Result<Vec<DeviceChunk>>;

    /// Emits rows of the current right chunk by their flags, from row `next` on.
    fn next_right_rows(
        walk: &mut JoinWalk<Self>,
        step: &Step<'_>,
        next: usize,
    ) -> Result<Vec<DeviceChunk>>;

    /// Emits rows of left chunk `chunk` by their flags, from row `next` on.
    fn next_left_rows(
        walk: &mut JoinWalk<Self>,
        step: &Step<'_>,
        chunk: usize,
        next: usize,
    ) -> Result<Vec<DeviceChunk>>;

    /// Called after each step with its result, which it may replace.
    fn after_step(
        _: &mut JoinWalk<Self>,
        made: Result<Vec<DeviceChunk>>,
    ) -> Result<Vec<DeviceChunk>> {
        made
    }

    /// Spills what the sink holds of the memory pool.
    fn leave_pool(_: &mut JoinWalk<Self>) -> Result<()> {
        Ok(())
    }
}

/// The parts of a walk. Making the walk may block.
pub(crate) struct WalkInputs {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) spec: Arc<JoinSpec>,
    /// All left chunks.
    pub(crate) left: Vec<InputChunk>,
    pub(crate) spilling: Option<Spilling>,
    pub(crate) metrics: DeviceMetrics,
}

/// One execution of a join, between two steps.
pub(crate) struct JoinWalk<S: MatchSink> {
    pub(crate) spec: Arc<JoinSpec>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) matrix: Matrix,
    pub(crate) state: State<S::Pairs>,
    /// Whether each row of each left chunk, and of the current right chunk, has a match. Only of the sides whose flags
    /// the join type needs.
    pub(crate) left_flags: Vec<Flags>,
    pub(crate) right_flags: Option<Flags>,
    pub(crate) size: PieceSize,
    reduction: Option<Reduction>,
    pub(crate) sink: S,
    pub(crate) metrics: DeviceMetrics,
}

impl<S: MatchSink> Evictable for JoinWalk<S> {
    fn holds_device_memory(&self) -> bool {
        self.wants_right() && self.matrix.is_resident()
    }

    fn evict_for_others(&mut self) -> Result<()> {
        self.matrix.leave_device()
    }
}

impl<S: MatchSink> JoinWalk<S> {
    /// Makes the walk over the left chunks and the right chunks to come. The sink reads the columns `arguments` beside
    /// those of the join's output.
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
        // The size that holds if no right chunk comes.
        size.fit(device.as_ref(), matrix.row_bytes(None)?);
        Ok(Self {
            reduction: Reduction::of(&spec),
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

    /// Whether [`Self::push_right`] or [`Self::end_right`] must be called before the next step.
    pub(crate) fn wants_right(&self) -> bool {
        matches!(self.state, State::NextRight)
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// The columns of the right side that the device needs.
    pub(crate) fn needed_right(&self) -> &[Need] {
        self.matrix.needed_right()
    }

    /// Uploads the first left chunk, if it fits, while the first right chunk is read.
    pub(crate) fn preload(&mut self) -> Result<()> {
        let device = Arc::clone(&self.device);
        step::shared(device.as_ref(), OnRefusal::Shrink, |_| {
            self.matrix.preload()
        })
    }

    /// Begins the tiles of the next right chunk, if the sink needs them.
    pub(crate) fn push_right(&mut self, chunk: InputChunk) -> Result<()> {
        if !S::wants_tiles(self, &chunk)? {
            return Ok(());
        }
        let chunk = self.reduced(chunk)?;
        if chunk.rows() == 0 {
            return Ok(());
        }
        self.right_flags = match self.spec.flags_side(Side::Right) {
            true => Some(step::flags(self.device.as_ref(), chunk.rows())?),
            false => None,
        };
        let row_bytes = self.matrix.row_bytes(Some(&chunk))? + self.sink.pair_bytes();
        self.size.fit(self.device.as_ref(), row_bytes);
        self.matrix.push_right(chunk)?;
        self.state = State::Tiles;
        Ok(())
    }

    /// The rows of a right chunk that may have a match.
    fn reduced(&mut self, chunk: InputChunk) -> Result<InputChunk> {
        let Some(reduction) = &mut self.reduction else {
            return Ok(chunk);
        };
        let device = Arc::clone(&self.device);
        let reduced = step::shared(device.as_ref(), OnRefusal::Shrink, |step| {
            reduction.reduced(step, &mut self.matrix, &chunk, &self.metrics)
        });
        Ok(reduced?.unwrap_or(chunk))
    }

    /// Called after the last right chunk.
    pub(crate) fn end_right(&mut self) -> Result<()> {
        self.state = State::Done;
        if S::end_right(self)? {
            self.state = State::LeftEnd { chunk: 0, next: 0 };
        }
        Ok(())
    }

    /// Spills chunks and the sink's state to files, because another reader of the memory pool found it full.
    pub(crate) fn leave_pool(&mut self) -> Result<()> {
        self.matrix.leave_pool()?;
        S::leave_pool(self)
    }

    /// Does a bounded amount of work and returns its output, if any.
    pub(crate) fn step(&mut self) -> Result<Vec<DeviceChunk>> {
        let device = Arc::clone(&self.device);
        if self.is_in_the_way() {
            step::shared(device.as_ref(), OnRefusal::Shrink, |_| {
                Ok(self.matrix.evict())
            })?;
        }
        let made = step::retried(device.as_ref(), self, Self::try_step, |walk| {
            !walk.is_done()
        });
        self.after_step(made)
    }

    /// A step that runs while the consumer still holds the previous output. If device memory does not suffice for both,
    /// it ends without output. The next step then repeats the work with the memory that the consumer gave back, before
    /// anything is cut or evicted.
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

    /// Does the work of the current state. A failure leaves a state from which it can be retried, or [`State::Done`].
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

    /// Called when the current right chunk has been joined with all left rows.
    pub(crate) fn end_tiles(&mut self) {
        match self.spec.flags_side(Side::Right) {
            true => self.state = State::RightEnd { next: 0 },
            false => self.end_right_chunk(),
        }
    }

    /// Ends the current right chunk.
    pub(crate) fn end_right_chunk(&mut self) {
        self.right_flags = None;
        self.matrix.end_right();
        self.state = State::NextRight;
    }

    /// Fails if pieces of the tile's matches find little room beside the tile itself, whose index and counts stay on the device between
    /// steps. Otherwise joins at the same time could fill the device with their tiles, and each would make pieces of a few rows for long.
    /// A tile that takes little itself is taken as it is, and so is one that cannot be halved.
    pub(crate) fn check_room(&self, tile: &Tile) -> Result<()> {
        let budget = self.device.budget();
        let pieces = (budget.limit() / ROOM_FOR_PIECES).min(STEP_BYTES);
        let of_tile = budget.in_use().saturating_sub(self.matrix.held_bytes);
        let is_large = of_tile > pieces / ROOM_FOR_PIECES;
        match is_large && budget.available() < pieces && self.matrix.can_halve(tile) {
            true => Err(budget.refused(pieces, "memory for output batches")),
            false => Ok(()),
        }
    }

    /// Whether device memory is scarce, a step waits for it, and the rows of this join can be evicted.
    fn is_in_the_way(&self) -> bool {
        let budget = self.device.budget();
        let is_scarce = || budget.available() < budget.limit() / ROOM_FOR_PIECES;
        !matches!(self.state, State::Pairs(_)) && budget.is_waited_for() && is_scarce()
    }

    /// The flags of the tile's chunk of `side`, and the index of the flag of the tile's first row.
    pub(crate) fn flags(&self, side: Side, tile: &Tile) -> Result<(&Flags, usize)> {
        let flags = match side {
            Side::Left => self.left_flags.get(tile.left_chunk),
            Side::Right => self.right_flags.as_ref(),
        };
        let flags = flags.ok_or_else(|| BowtieError::Internal("flags were not made".into()))?;
        Ok((flags, tile.rows(side).start))
    }

    /// Answers an allocation failure of a step's pieces: later pieces are shorter, or rows were evicted or spilled.
    /// Returns `None` in that case, in which the step made no output.
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
