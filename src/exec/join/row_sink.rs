//! [`RowSink`]: makes output rows of the matches of a join. It chooses the path of each tile: presorted walk, key
//! bitmap, single pass, long ranges, or candidates expanded piece by piece.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::error::Result;
use crate::exec::chunk::DeviceChunk;
use crate::exec::chunk::long_ranges::LongRanges;
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::fast_paths::presorted::PresortedSemiJoin;
use crate::exec::join::fast_paths::semi_bitmap::BitmapSemiJoin;
use crate::exec::join::fast_paths::single_pass::{JoinedSides, SinglePassJoin};
use crate::exec::join::long_ranges;
use crate::exec::join::null_aware::RightKeys;
use crate::exec::join::slices::Slices;
use crate::exec::join::tiles::probed_tile::{JoinedTile, ProbedTile, TileStep};
use crate::exec::join::tiles::tile::Tile;
use crate::exec::join::walk::{JoinWalk, MatchSink, State, WalkInputs};
use crate::exec::memory::step::Step;
use crate::ir::side::Side;
use crate::ir::strategies::Materialization;
use crate::ops::probe::ProbeResult;
use crate::spec::join::MatchMethod;

/// A tile whose candidates are expanded piece by piece, from number `next` on.
#[derive(Debug)]
pub(crate) struct PairsOfTile {
    pub(crate) tile: Arc<ProbedTile>,
    /// The number of the first candidate of each probe position.
    pub(crate) offsets: Buffer<u64>,
    /// Candidates of the tile.
    pub(crate) total: u64,
    pub(crate) next: u64,
    /// Whether the matches of the left and of the right side are flagged from the expanded pairs, as counts do not tell
    /// them.
    pub(crate) flag_left: bool,
    pub(crate) flag_right: bool,
}

/// The state of a join's output beside the walk.
pub(crate) struct RowSink {
    /// Set if tiles may be joined in a single pass.
    single_pass: Option<SinglePassJoin>,
    /// Set as long as the sides may be presorted.
    pub(crate) presorted: Option<PresortedSemiJoin>,
    /// Set if a key bitmap may tell which rows match.
    pub(crate) bitmap: Option<BitmapSemiJoin>,
    /// Left chunks whose rows were flagged by the bitmap at the end.
    pub(crate) flagged_left: usize,
    /// Right rows whose partners are chosen from several tiles.
    pub(crate) slices: Slices,
    /// What a NOT IN needs to know of the right keys.
    pub(crate) right_keys: RightKeys,
}

pub(crate) type JoinRun = JoinWalk<RowSink>;

impl JoinRun {
    /// Makes the walk that emits the rows of the join. May block.
    pub(crate) fn of_rows(inputs: WalkInputs) -> Result<Self> {
        let spec = &inputs.spec;
        let sink = RowSink {
            single_pass: SinglePassJoin::of(spec),
            presorted: PresortedSemiJoin::of(spec),
            bitmap: BitmapSemiJoin::of(spec),
            flagged_left: 0,
            slices: Slices::default(),
            right_keys: RightKeys::default(),
        };
        let keeps_left_whole = spec.best_partners.is_some();
        let mut walk = Self::new(inputs, std::iter::empty(), sink)?;
        walk.matrix.keeps_left_whole = keeps_left_whole;
        Ok(walk)
    }

    /// Joins the next tile, or the whole current right chunk by a presorted walk or a key bitmap.
    fn join_tile(&mut self, step: &Step<'_>) -> Result<Vec<DeviceChunk>> {
        if let Some(made) = self.join_slice(step)? {
            return Ok(made);
        }
        if self.spec.chooses_among_all() && !self.matrix.tiles.is_empty() {
            self.begin_slices(None);
            return Ok(vec![]);
        }
        if let Some(made) = self.emit_right_presorted(step)? {
            return Ok(made);
        }
        if let Some(bitmap) = &mut self.sink.bitmap {
            match bitmap.probe_chunk(step, &mut self.matrix, &self.metrics)? {
                true => return self.emit_right_by_bitmap(step),
                false => self.sink.bitmap = None,
            }
        }
        let theta = &self.spec.theta;
        let emits_pairs = self.spec.emits_pairs();
        let has_rest = self.spec.unprogrammed().next().is_some();
        // The join needs flags of the probe side alone: one match a row is enough.
        let exists_only = !emits_pairs && !has_rest && !self.spec.flags_side(theta.build);
        let wanted = match exists_only {
            true => ProbeResult::Exists,
            false => ProbeResult::Pairs,
        };
        let single_pass = self.sink.single_pass.as_ref();
        let Some(done) = self.matrix.next_step(step, wanted, single_pass)? else {
            self.end_tiles();
            return Ok(vec![]);
        };
        let tile = match done {
            TileStep::Searched(tile) if !self.has_final_partners(&tile) => {
                self.begin_slices(Some(tile.tile.clone()));
                return Ok(vec![]);
            }
            TileStep::Searched(tile) => Arc::new(*tile),
            TileStep::Joined(JoinedTile { tile, joined }) => {
                if let Err(error) = self.flag(&tile, &joined) {
                    self.matrix.put_back(step, &tile, error)?;
                    return Ok(vec![]);
                }
                let batch = joined.batch;
                self.metrics.candidate_pairs.add(batch.rows());
                return Ok(match batch.rows() {
                    0 => vec![],
                    _ => vec![DeviceChunk::Resident(batch)],
                });
            }
        };
        match self.begin(step, &tile) {
            Ok(TileResult::Done) => Ok(vec![]),
            Ok(TileResult::LongRanges(ranges)) => Ok(vec![DeviceChunk::LongRanges(ranges)]),
            Ok(TileResult::Pairs(pairs)) => {
                if emits_pairs && matches!(theta.method, MatchMethod::Equi(_)) {
                    self.metrics.materialized_by(Materialization::Gfur);
                }
                self.state = State::Pairs(pairs);
                Ok(vec![])
            }
            Err(error) => {
                self.matrix.put_back(step, &tile.tile, error)?;
                Ok(vec![])
            }
        }
    }

    /// Sets the flags of rows that a single pass matched.
    fn flag(&self, tile: &Tile, joined: &JoinedSides) -> Result<()> {
        for (side, rows) in &joined.matched {
            let (flags, first) = self.flags(*side, tile)?;
            self.device.set_flags(flags, first, rows)?;
        }
        Ok(())
    }

    /// Sets the flags that need no expanded pairs, and chooses how the tile's candidates are emitted.
    fn begin(&self, step: &Step<'_>, tile: &Arc<ProbedTile>) -> Result<TileResult> {
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
                let (flags, first) = self.flags(side, &tile.tile)?;
                tile.search.flag_matched(device, side, flags, first)?;
            }
        }
        let [flag_left, flag_right] = by_pairs;
        if !emits_pairs && !flag_left && !flag_right {
            return Ok(TileResult::Done);
        }
        self.check_room(&tile.tile)?;
        let offsets = tile.search.offsets(device)?;
        let total = device.total(&offsets)?;
        self.metrics
            .candidate_pairs
            .add(usize::try_from(total).unwrap_or(usize::MAX));
        if total == 0 {
            return Ok(TileResult::Done);
        }
        let plain = !flag_left
            && !flag_right
            && !has_residual
            && self.spec.values.is_empty()
            && !self.spec.output_on_device;
        if plain && long_ranges::pay(device, tile, total) {
            match long_ranges::from_tile(device, &self.spec, tile, total) {
                Ok(ranges) => {
                    self.metrics.sliced();
                    return Ok(TileResult::LongRanges(Box::new(ranges)));
                }
                // Without memory for the build columns in sorted order, matches are expanded and gathered piece by
                // piece.
                Err(error) if step.may_shrink(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(TileResult::Pairs(Box::new(PairsOfTile {
            tile: Arc::clone(tile),
            offsets,
            total,
            next: 0,
            flag_left,
            flag_right,
        })))
    }

    /// Makes the pieces of one step, concurrently on devices that can. Pieces without rows are dropped.
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
}

impl MatchSink for RowSink {
    type Pairs = PairsOfTile;

    fn wants_tiles(walk: &mut JoinRun, chunk: &InputChunk) -> Result<bool> {
        if !walk.spec.null_aware {
            return Ok(true);
        }
        walk.sink.right_keys.add(&mut walk.matrix, chunk)?;
        let decided = walk.sink.right_keys.are_decided();
        if decided {
            walk.matrix.forget_left();
        }
        Ok(!decided)
    }

    /// Fails with the error that the condition of a NOT IN raised, unless a right key is NULL.
    fn end_right(walk: &mut JoinRun) -> Result<bool> {
        let null = walk.sink.right_keys.have_null()?;
        Ok(walk.spec.flags_side(Side::Left) && !null)
    }

    fn next_tile(walk: &mut JoinRun, step: &Step<'_>) -> Result<Vec<DeviceChunk>> {
        walk.join_tile(step)
    }

    fn next_pairs(
        walk: &mut JoinRun,
        step: &Step<'_>,
        pairs: Box<PairsOfTile>,
    ) -> Result<Vec<DeviceChunk>> {
        walk.emit_pairs(step, pairs)
    }

    fn next_right_rows(
        walk: &mut JoinRun,
        step: &Step<'_>,
        next: usize,
    ) -> Result<Vec<DeviceChunk>> {
        walk.emit_right_end(step, next)
    }

    fn next_left_rows(
        walk: &mut JoinRun,
        step: &Step<'_>,
        chunk: usize,
        next: usize,
    ) -> Result<Vec<DeviceChunk>> {
        walk.emit_left_end(step, chunk, next)
    }

    /// Keeps an error that the condition of a NOT IN raised until the right side has ended. No further tile is joined.
    fn after_step(walk: &mut JoinRun, made: Result<Vec<DeviceChunk>>) -> Result<Vec<DeviceChunk>> {
        let joins = matches!(walk.state, State::Tiles | State::Pairs(_));
        match made {
            Err(error) if walk.spec.null_aware && joins && error.is_of_expressions() => {
                walk.sink.right_keys.condition_failed(error);
                walk.matrix.forget_left();
                walk.end_right_chunk();
                Ok(vec![])
            }
            made => made,
        }
    }
}

/// How a tile goes on once its flags are set.
enum TileResult {
    /// It emits nothing.
    Done,
    /// Its matches are emitted as slices of the build columns.
    LongRanges(Box<LongRanges>),
    /// Its candidates are expanded piece by piece.
    Pairs(Box<PairsOfTile>),
}
