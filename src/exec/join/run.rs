//! [`JoinRun`]: one execution of a join, a short blocking step at a time.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::data::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::structures::Flags;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::chunk::DeviceChunk;
use crate::exec::input::chunk::InputChunk;
use crate::exec::input::prefetch::Prefetched;
use crate::exec::join::long_ranges::LongRanges;
use crate::exec::join::needed_columns::NeededColumns;
use crate::exec::join::null_aware::RightKeys;
use crate::exec::join::piece_size::PieceSize;
use crate::exec::join::presorted::PresortedSemiJoin;
use crate::exec::join::semi_bitmap::BitmapSemiJoin;
use crate::exec::join::single_pass::SinglePassJoin;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::join::tiles::probed_tile::{ProbedTile, TileStep};
use crate::exec::memory::retry::{flags_retry_exclusive, retry_exclusive, shared_step};
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::ir::strategies::{Materialization, Strategy};
use crate::ops::probe::Wanted;
use crate::spec::join::JoinSpec;

/// What may follow: `NextRight → Tiles → (Pairs → Tiles)* → RightEnd → NextRight`, and once the right side is at its end,
/// `LeftEnd → Done`.
#[derive(Debug)]
pub(crate) enum State {
    /// A right chunk is wanted.
    NextRight,
    /// The next tile of the right chunk at hand.
    Tiles,
    /// Pairs of a tile, from number `next` on.
    Pairs(Box<PairsOfTile>),
    /// Rows of the right chunk at hand that come out by themselves, from row `next` on.
    RightEnd {
        next: usize,
    },
    /// Rows of left chunk `chunk` that come out by themselves, from row `next` on.
    LeftEnd {
        chunk: usize,
        next: usize,
    },
    Done,
}

#[derive(Debug)]
pub(crate) struct PairsOfTile {
    pub(crate) tile: Arc<ProbedTile>,
    pub(crate) offsets: Buffer<u64>,
    pub(crate) total: u64,
    pub(crate) next: u64,
    /// Sides whose matched rows are known from the pairs alone.
    pub(crate) flag_left: bool,
    pub(crate) flag_right: bool,
}

#[derive(Debug)]
pub(crate) struct JoinRun {
    pub(crate) spec: Arc<JoinSpec>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) matrix: Matrix,
    /// Where all of its pairs may be put together as they are found.
    at_once: Option<SinglePassJoin>,
    /// Where one walk over both sides may tell which rows match, if they are in the order of their keys.
    pub(crate) by_merge: Option<PresortedSemiJoin>,
    /// Where a bit for each key may tell which rows match.
    pub(crate) by_bits: Option<BitmapSemiJoin>,
    /// Left chunks whose rows were flagged by it at the end.
    pub(crate) flagged_left: usize,
    pub(crate) state: State,
    pub(crate) right_keys: RightKeys,
    pub(crate) left_flags: Vec<Flags>,
    pub(crate) right_flags: Option<Flags>,
    pub(crate) size: PieceSize,
    pub(crate) metrics: DeviceMetrics,
}

impl JoinRun {
    /// May block.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        spec: Arc<JoinSpec>,
        left: Vec<InputChunk>,
        spilling: Option<Spilling>,
        metrics: DeviceMetrics,
    ) -> Result<Self> {
        let needed = NeededColumns::of(&spec, std::iter::empty());
        let left_flags = match spec.flags_side(Side::Left) {
            true => left
                .iter()
                .map(|chunk| flags_retry_exclusive(device.as_ref(), chunk.rows()))
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
            size,
            matrix,
            at_once: SinglePassJoin::of(&spec),
            by_merge: PresortedSemiJoin::of(&spec),
            by_bits: BitmapSemiJoin::of(&spec),
            flagged_left: 0,
            spec,
            device,
            state: State::NextRight,
            right_keys: RightKeys::default(),
            left_flags,
            right_flags: None,
            metrics,
        })
    }

    /// Whether [`JoinRun::push_right`] or [`JoinRun::end_right`] must come before the next step.
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
        let _work = shared_step(device.as_ref())?;
        self.matrix.preload()
    }

    pub(crate) fn push_right(&mut self, arriving: Prefetched) -> Result<()> {
        let chunk = &arriving.chunk;
        self.right_flags = match self.spec.flags_side(Side::Right) {
            true => Some(flags_retry_exclusive(self.device.as_ref(), chunk.rows())?),
            false => None,
        };
        if self.spec.null_aware {
            self.right_keys.add(&mut self.matrix, chunk)?;
            if self.right_keys.are_decided() {
                self.matrix.forget_left();
                return Ok(());
            }
        }
        let row_bytes = self.matrix.row_bytes(Some(chunk))?;
        self.size.fit(self.device.as_ref(), row_bytes);
        self.matrix.push_right(arriving)?;
        self.state = State::Tiles;
        Ok(())
    }

    /// Takes what it can to files, as somebody else found no room.
    pub(crate) fn leave_pool(&mut self) -> Result<()> {
        self.matrix.leave_pool().map(|_| ())
    }

    /// Fails with what the condition of a NOT IN raised, unless a right key is NULL.
    pub(crate) fn end_right(&mut self) -> Result<()> {
        self.state = State::Done;
        let null = self.right_keys.have_null()?;
        self.state = match self.spec.flags_side(Side::Left) && !null {
            true => State::LeftEnd { chunk: 0, next: 0 },
            false => State::Done,
        };
        Ok(())
    }

    /// Does a bounded amount of work; returns the output that it made, if any.
    pub(crate) fn step(&mut self) -> Result<Vec<DeviceChunk>> {
        let device = Arc::clone(&self.device);
        let made = retry_exclusive(device.as_ref(), self, Self::try_step, |run| !run.is_done());
        let made = self.put_off_failure(made);
        self.note(made)
    }

    /// The same while the reader works on the pieces of the last step. Where there is no room for both, nothing comes out: the next step does
    /// it, with what the reader gives back, before anything has to be cut or to leave the device.
    pub(crate) fn step_beside(&mut self) -> Result<Vec<DeviceChunk>> {
        let device = Arc::clone(&self.device);
        let work = shared_step(device.as_ref())?;
        self.matrix.may_wait = true;
        let made = self.try_step();
        self.matrix.may_wait = false;
        drop(work);
        let made = match made {
            Err(error) if error.is_out_of_device_memory() && !self.is_done() => Ok(vec![]),
            made => made,
        };
        let made = self.put_off_failure(made);
        self.note(made)
    }

    /// Keeps what the condition of a NOT IN raised until the right side has ended. No more tiles are joined.
    fn put_off_failure(&mut self, made: Result<Vec<DeviceChunk>>) -> Result<Vec<DeviceChunk>> {
        let joins = matches!(self.state, State::Tiles | State::Pairs(_));
        match made {
            Err(error) if self.spec.null_aware && joins && error.is_of_expressions() => {
                self.right_keys.condition_failed(error);
                self.matrix.take_right();
                self.matrix.forget_left();
                self.state = State::NextRight;
                Ok(vec![])
            }
            made => made,
        }
    }

    fn note(&self, made: Result<Vec<DeviceChunk>>) -> Result<Vec<DeviceChunk>> {
        self.matrix.count_late_uploads();
        self.metrics
            .peak_device_bytes
            .set_max(self.device.budget().peak() as usize);
        made
    }

    /// A step that fails leaves a state behind from which it can be done once more, or [`State::Done`].
    fn try_step(&mut self) -> Result<Vec<DeviceChunk>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::NextRight => {
                self.state = State::NextRight;
                Ok(vec![])
            }
            State::Tiles => {
                self.state = State::Tiles;
                self.next_tile()
            }
            State::Pairs(pairs) => self.emit_pairs(pairs),
            State::RightEnd { next } => {
                self.state = State::RightEnd { next };
                self.emit_right_end(next)
            }
            State::LeftEnd { chunk, next } => {
                self.state = State::LeftEnd { chunk, next };
                self.emit_left_end(chunk, next)
            }
            State::Done => Ok(vec![]),
        }
    }

    fn next_tile(&mut self) -> Result<Vec<DeviceChunk>> {
        if let Some(made) = self.emit_right_by_merge()? {
            return Ok(made);
        }
        if let Some(by_bits) = &mut self.by_bits {
            match by_bits.meet(&mut self.matrix, &self.metrics)? {
                true => return self.emit_right_by_bits(),
                false => self.by_bits = None,
            }
        }
        let theta = &self.spec.theta;
        let emits_pairs = self.spec.emits_pairs();
        let has_rest = self.spec.unprogrammed().next().is_some();
        // Only flags are wanted of the searching side: one match a row is enough.
        let exists_only = !emits_pairs && !has_rest && !self.spec.flags_side(theta.build);
        let wanted = match exists_only {
            true => Wanted::Exists,
            false => Wanted::Pairs,
        };
        let Some(step) = self.matrix.next_step(wanted, self.at_once.as_ref())? else {
            return Ok(self.end_tiles());
        };
        let tile = match step {
            TileStep::Searched(tile) => Arc::new(*tile),
            TileStep::Joined(batch) => {
                self.metrics.candidate_pairs.add(batch.rows());
                return Ok(match batch.rows() {
                    0 => vec![],
                    _ => vec![DeviceChunk::Resident(batch)],
                });
            }
        };
        match self.begin(&tile) {
            Ok(Begun::Done) => Ok(vec![]),
            Ok(Begun::LongRanges(runs)) => Ok(vec![DeviceChunk::LongRanges(runs)]),
            Ok(Begun::Pairs(pairs)) => {
                if emits_pairs && matches!(theta.strategy, Strategy::Equi(_)) {
                    self.metrics.materialized_by(Materialization::Gfur);
                }
                self.state = State::Pairs(pairs);
                Ok(vec![])
            }
            Err(error)
                if error.is_out_of_device_memory() && self.matrix.put_back(&tile, &error) =>
            {
                Ok(vec![])
            }
            Err(error) => Err(error),
        }
    }

    /// The right chunk at hand met all left rows.
    pub(crate) fn end_tiles(&mut self) -> Vec<DeviceChunk> {
        self.state = match self.spec.flags_side(Side::Right) {
            true => State::RightEnd { next: 0 },
            false => {
                self.matrix.take_right();
                State::NextRight
            }
        };
        vec![]
    }

    /// Sets the flags that need no pairs, and says how the tile goes on.
    fn begin(&self, tile: &Arc<ProbedTile>) -> Result<Begun> {
        let emits_pairs = self.spec.emits_pairs();
        let has_residual = !tile.filters(&self.spec).is_empty();
        let device = self.device.as_ref();
        let mut by_pairs = [false; 2];
        for (by_pairs, side) in by_pairs.iter_mut().zip([Side::Left, Side::Right]) {
            if !self.spec.flags_side(side) {
                continue;
            }
            *by_pairs = has_residual || !tile.search.counts_side(side);
            if !*by_pairs {
                let (flags, first) = self.flags(side, tile)?;
                tile.search.flag_matched(device, side, flags, first)?;
            }
        }
        let [flag_left, flag_right] = by_pairs;
        if !emits_pairs && !flag_left && !flag_right {
            return Ok(Begun::Done);
        }
        let offsets = tile.search.offsets(device)?;
        let total = device.total(&offsets)?;
        self.metrics
            .candidate_pairs
            .add(usize::try_from(total).unwrap_or(usize::MAX));
        if total == 0 {
            return Ok(Begun::Done);
        }
        let plain = !flag_left && !flag_right && !has_residual && !self.spec.output_on_device;
        if plain && LongRanges::pay(device, tile, total) {
            match LongRanges::new(device, &self.spec, tile, total) {
                Ok(runs) => return Ok(Begun::LongRanges(Box::new(runs))),
                Err(error) if error.is_out_of_device_memory() && self.matrix.may_wait => {
                    return Err(error);
                }
                // No room for columns in sorted order: their rows are gathered pair by pair.
                Err(error) if error.is_out_of_device_memory() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Begun::Pairs(Box::new(PairsOfTile {
            tile: Arc::clone(tile),
            offsets,
            total,
            next: 0,
            flag_left,
            flag_right,
        })))
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

    /// Makes the pieces of one step.
    pub(crate) fn pieces(
        &self,
        pieces: usize,
        make: impl Fn(usize) -> Result<Option<DeviceBatch>> + Sync,
    ) -> Result<Vec<DeviceChunk>> {
        let _timer = self.metrics.output_time.timer();
        let made: Vec<Mutex<Option<DeviceBatch>>> = (0..pieces).map(|_| Mutex::new(None)).collect();
        self.device.for_each_piece(pieces, &|piece| {
            *made[piece].lock() = make(piece)?;
            Ok(())
        })?;
        Ok(made
            .into_iter()
            .filter_map(Mutex::into_inner)
            .map(DeviceChunk::Resident)
            .collect())
    }

    /// After a refused lease nothing was made (false), and pieces are half as long from now on.
    pub(crate) fn or_smaller(
        &mut self,
        made: Result<Vec<DeviceChunk>>,
    ) -> Result<(Vec<DeviceChunk>, bool)> {
        match made {
            Err(error) if error.is_out_of_device_memory() && self.matrix.may_wait => Err(error),
            Err(error)
                if error.is_out_of_device_memory()
                    && (self.size.halve() || self.matrix.make_room()) =>
            {
                Ok((vec![], false))
            }
            Err(error) if error.is_out_of_host_memory() && self.matrix.leave_pool_once()? => {
                Ok((vec![], false))
            }
            made => {
                let made = made?;
                self.matrix.found_room();
                self.size.made();
                Ok((made, true))
            }
        }
    }
}

/// How a tile goes on once its flags are set.
enum Begun {
    /// Nothing comes out of it.
    Done,
    /// All its pairs come out as runs.
    LongRanges(Box<LongRanges>),
    /// Its pairs come out piece by piece.
    Pairs(Box<PairsOfTile>),
}
