//! [`GroupSink`]: makes partial states of the matches of each tile, and merges them into DataFusion's own accumulators.
//! These finish the groups, so overflow, NULLs and result types are DataFusion's. An aggregate of a tile is computed in
//! one of these ways:
//!
//! | argument on | how | cost of a tile |
//! |---|---|---|
//! | the grouped side (or nothing is grouped by), or a count of any, over overlapping intervals | weighted by counts of two searches (`intervals.rs`) | O(n + m) |
//! | the grouped side (or nothing is grouped by), whose matches are counted | weighted: each value times the number of its row's matches | O(n + m) |
//! | the other side, if nothing is tested | folded over ranges, or over those in which a row is | O((n + m) log n) |
//! | the build side, if the probe side is grouped or nothing is, and one inequality is tested | folded by merging both sides, or over ranges of levels by that test | O((n + m) log n) |
//! | the same under other tests, or a compiled filter | folded as the walk finds the matches, which are not written | that of counting them, once more |
//! | any side | by matches: matches are expanded, and only the arguments are gathered | O(matches) |
//!
//! Rows of the grouped side are grouped on the device (`grouped.rs`), so that only groups come down. If one aggregate needs expanded matches, all aggregates of the tile use them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use datafusion::execution::memory_pool::MemoryReservation;

use crate::device::budget::Lease;
use crate::device::data::buffer::Buffer;
use crate::device::data::results::Aggregated;
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::group_table::GroupTable;
use crate::exec::aggregate::group_values::group_columns;
use crate::exec::aggregate::output::{Finished, FinishedRun};
use crate::exec::chunk::DeviceChunk;
use crate::exec::join::tiles::probed_tile::{ProbedTile, TileStep};
use crate::exec::join::walk::{JoinWalk, MatchSink, State, WalkInputs};
use crate::exec::join_aggregate::intervals::{IntervalCounts, PlacedTile};
use crate::exec::join_aggregate::left_groups::LeftGroups;
use crate::exec::join_aggregate::method::FoldMethod;
use crate::exec::join_aggregate::states::{ChunkRows, RowStates, SideStates};
use crate::exec::memory::step::Step;
use crate::exec::metrics::AggregatedBy;
use crate::ir::side::Side;
use crate::spec::join_aggregate::{GroupSide, JoinAggregateSpec};

/// A tile whose candidates are expanded piece by piece, from number `next` on.
#[derive(Debug)]
pub(crate) struct PairsOfTile {
    pub(crate) tile: ProbedTile,
    /// The number of the first candidate of each probe position.
    pub(crate) offsets: Buffer<u64>,
    /// Candidates of the tile.
    pub(crate) total: u64,
    pub(crate) next: u64,
    /// The group of each row of the grouped side, once it was looked up.
    pub(crate) groups: Vec<Option<usize>>,
    /// The reservation for `groups`.
    _lease: Lease,
}

/// The state of the aggregation beside the walk.
pub(crate) struct GroupSink {
    pub(crate) spec: Arc<JoinAggregateSpec>,
    pub(crate) table: GroupTable,
    /// Groups that are not in the table yet, and the rows that they are of.
    pub(crate) waiting: Option<(ChunkRows, Aggregated)>,
    /// Where overlaps of intervals are counted without being found.
    pub(crate) intervals: Option<IntervalCounts>,
    left_groups: LeftGroups,
}

pub(crate) type AggregateRun = JoinWalk<GroupSink>;

impl FinishedRun for AggregateRun {
    fn next_groups(&mut self) -> Result<Option<Finished>> {
        let device = Arc::clone(&self.device);
        self.sink.left_groups.give_up();
        self.merge_waiting()?;
        let groups = self.sink.table.next(&|| device.check_cancelled())?;
        Ok(groups.map(Finished::OnHost))
    }
}

impl AggregateRun {
    /// Makes the walk that aggregates the join of `spec`. `reservation` is for the table of groups. May block.
    pub(crate) fn of_groups(
        inputs: WalkInputs,
        spec: Arc<JoinAggregateSpec>,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let aggregates = spec.aggregates.iter().map(|a| &a.aggregate);
        let table = GroupTable::new(
            &spec.schema,
            spec.group_columns.len(),
            aggregates,
            reservation,
            inputs.spilling.clone(),
        )?;
        let table = table.writing_states(spec.writes_states);
        let sink = GroupSink {
            spec: Arc::clone(&spec),
            left_groups: LeftGroups::new(inputs.left.len(), table.reservation.new_empty()),
            table,
            waiting: None,
            intervals: IntervalCounts::of(&spec, inputs.left.len()),
        };
        let arguments = spec.aggregates.iter().filter_map(|a| a.argument);
        Self::new(inputs, arguments, sink)
    }

    /// Spills the groups. Group numbers change, so those of the current tile's rows are forgotten.
    fn spill_groups(&mut self) -> Result<()> {
        self.sink.table.spill()?;
        self.sink.left_groups.give_up();
        if let State::Pairs(pairs) = &mut self.state {
            pairs.groups.fill(None);
        }
        Ok(())
    }

    /// Computes the partial states of the next tile, or begins to expand its matches.
    fn join_tile(&mut self, step: &Step<'_>) -> Result<()> {
        let wanted = self.wanted();
        let intervals = &mut self.sink.intervals;
        let joined = self.matrix.next_by(step, |matrix, tile| {
            if let Some(intervals) = intervals
                && let Some(placed) = intervals.place(matrix, tile)?
            {
                return Ok(NextTile::Placed(Box::new(placed)));
            }
            match matrix.step(step, tile, wanted, None)? {
                TileStep::Searched(tile) => Ok(NextTile::Probed(tile)),
                TileStep::Joined(_) => {
                    Err(BowtieError::Internal("a tile without a request".into()))
                }
            }
        });
        let next = match joined {
            // The tile was put back.
            Err(error)
                if error.is_out_of_device_memory()
                    && step.may_shrink(&error)
                    && self.sink.waiting.is_some() =>
            {
                return self.merge_waiting();
            }
            joined => joined?,
        };
        let tile = match next {
            Some(NextTile::Probed(tile)) => *tile,
            Some(NextTile::Placed(placed)) => return self.merge_placed(step, &placed),
            None => {
                self.merge_waiting()?;
                self.end_tiles();
                return Ok(());
            }
        };
        let methods = match self.methods_of(&tile) {
            Ok(methods) => methods,
            Err(error) => return self.put_back(step, &tile, error),
        };
        let flagged = [Side::Left, Side::Right]
            .into_iter()
            .find(|side| self.spec.flags_side(*side));
        // Also without any aggregate, as in SELECT DISTINCT.
        let by_pairs = !tile.filters(&self.spec).is_empty()
            || methods.contains(&FoldMethod::Pairs)
            || flagged.is_some_and(|side| !tile.search.counts_side(side))
            // Without aggregates it must still be known which rows have a match.
            || matches!(self.sink.spec.group_side, GroupSide::Side(side) if !tile.search.counts_side(side));
        if by_pairs && self.sink.waiting.is_some() {
            return self.put_back_for_room(&tile);
        }
        let begun = match by_pairs {
            true => self.begin_pairs(&tile).map(TileResult::Pairs),
            false => self
                .states_of_tile(&tile, &methods, flagged)
                .map(TileResult::States),
        };
        match begun {
            Ok(TileResult::States(states)) => {
                self.count_methods(&tile, &methods, by_pairs);
                // After a failure some states are merged and others are not, so it cannot be retried.
                self.state = State::Done;
                for (of, states) in states {
                    self.merge_states(of, states)?;
                }
                self.state = State::Tiles;
                Ok(())
            }
            Ok(TileResult::Pairs(Some((offsets, total, lease)))) => {
                self.count_methods(&tile, &methods, by_pairs);
                let rows = self.grouped_rows(&tile);
                self.state = State::Pairs(Box::new(PairsOfTile {
                    tile,
                    offsets,
                    total,
                    next: 0,
                    groups: vec![None; rows],
                    _lease: lease,
                }));
                Ok(())
            }
            Ok(TileResult::Pairs(None)) => Ok(()),
            Err(error) => self.put_back(step, &tile, error),
        }
    }

    /// Counts the tile by how its aggregates are computed.
    fn count_methods(&self, tile: &ProbedTile, methods: &[FoldMethod], by_pairs: bool) {
        let ways = methods.iter().map(|method| match method {
            FoldMethod::Weighed(_) => AggregatedBy::Weights,
            FoldMethod::Folded(side) if *side == tile.search.build_side => AggregatedBy::Covers,
            FoldMethod::Folded(_) if tile.search.is_untested() => AggregatedBy::Ranges,
            FoldMethod::Folded(_) if tile.search.folds_by_levels() => AggregatedBy::Levels,
            FoldMethod::Folded(_) => AggregatedBy::Walk,
            FoldMethod::Pairs => AggregatedBy::Pairs,
        });
        let ways: BTreeSet<AggregatedBy> = match by_pairs {
            true => [AggregatedBy::Pairs].into(),
            false => ways.collect(),
        };
        ways.into_iter()
            .for_each(|way| self.metrics.aggregated_by(way));
    }

    /// Merges states of rows into the table.
    pub(crate) fn merge_states(&mut self, of: ChunkRows, states: SideStates) -> Result<()> {
        match states {
            SideStates::ByGroup(groups) => self.add_groups(of, groups),
            SideStates::ByRow(RowStates { matched, states }) => {
                let groups = self.groups_of_rows(of, &matched)?;
                for (i, states) in states {
                    self.sink.table.merge(i, &states, &groups)?;
                }
                Ok(())
            }
        }
    }

    /// Whether the rows of a left chunk have counts of overlaps that are not merged yet.
    fn has_counts(&self, left_chunk: usize) -> bool {
        let intervals = self.sink.intervals.as_ref();
        intervals.is_some_and(|intervals| intervals.has_counts(left_chunk))
    }

    /// The groups of `rows` of the tile's side. They are added to the table, so each row must have a match.
    pub(crate) fn groups_of(
        &mut self,
        side: Side,
        tile: &ProbedTile,
        rows: &UInt32Array,
    ) -> Result<Vec<usize>> {
        let first = tile.tile.rows(side).start;
        let of = ChunkRows {
            side,
            left_chunk: tile.left_chunk,
            rows: first..first + tile.of(side).rows(),
        };
        self.groups_of_rows(of, rows)
    }

    /// The groups of `rows`, which are counted from the first of those `of` a chunk.
    fn groups_of_rows(&mut self, of: ChunkRows, rows: &UInt32Array) -> Result<Vec<usize>> {
        let ChunkRows {
            side,
            left_chunk,
            rows: of_chunk,
        } = of;
        if self.sink.spec.group_side != GroupSide::Side(side) {
            return Ok(vec![0; rows.len()]);
        }
        match side {
            Side::Left => self.groups_of_left_rows(left_chunk, of_chunk, rows),
            Side::Right => {
                let columns = self.group_columns_of(side, left_chunk, of_chunk, rows)?;
                self.sink.table.intern(&columns, rows.len())
            }
        }
    }

    /// Those of left rows, which are looked up once.
    fn groups_of_left_rows(
        &mut self,
        chunk: usize,
        of_chunk: Range<usize>,
        rows: &UInt32Array,
    ) -> Result<Vec<usize>> {
        let first = of_chunk.start;
        let unknown = self.sink.left_groups.unknown(chunk, first, rows);
        let fresh: Vec<u32> = unknown.iter().map(|at| rows.value(*at)).collect();
        if !fresh.is_empty() {
            let fresh = UInt32Array::from(fresh);
            let columns = self.group_columns_of(Side::Left, chunk, of_chunk.clone(), &fresh)?;
            let groups = self.sink.table.intern(&columns, fresh.len())?;
            let whole = (chunk, self.matrix.left()[chunk].rows());
            let known = &mut self.sink.left_groups;
            known.keep(whole, first, fresh.values().iter().copied(), &groups);
            if fresh.len() == rows.len() {
                return Ok(groups);
            }
        }
        match self.sink.left_groups.of_rows(chunk, first, rows) {
            Some(groups) => Ok(groups),
            None => {
                let columns = self.group_columns_of(Side::Left, chunk, of_chunk, rows)?;
                self.sink.table.intern(&columns, rows.len())
            }
        }
    }

    /// The group columns of these rows.
    pub(crate) fn group_columns_of(
        &self,
        side: Side,
        left_chunk: usize,
        of_chunk: Range<usize>,
        rows: &UInt32Array,
    ) -> Result<Vec<ArrayRef>> {
        let chunk = match side {
            Side::Left => &self.matrix.left()[left_chunk],
            Side::Right => self
                .matrix
                .right()
                .ok_or_else(|| BowtieError::Internal("no current right chunk".into()))?,
        };
        let spec = &self.sink.spec;
        group_columns(spec, chunk, of_chunk.start, of_chunk.len(), rows)
    }

    /// Adds the unmatched rows of a chunk to the groups, from row `next` on.
    fn merge_unmatched(&mut self, side: Side, left_chunk: usize, next: &mut usize) -> Result<()> {
        let (chunk, flags) = match side {
            Side::Left => (
                self.matrix.left().get(left_chunk),
                self.left_flags.get(left_chunk),
            ),
            Side::Right => (self.matrix.right(), self.right_flags.as_ref()),
        };
        let (Some(chunk), Some(flags)) = (chunk, flags) else {
            return Err(BowtieError::Internal("the end of no chunk".into()));
        };
        let (GroupSink { spec, table, .. }, device) = (&mut self.sink, self.device.as_ref());
        table.merge_unmatched(spec, device, side, chunk, flags, next)
    }
}

impl MatchSink for GroupSink {
    type Pairs = PairsOfTile;

    fn pair_bytes(&self) -> usize {
        16 * self.spec.aggregates.len()
    }

    fn next_tile(walk: &mut AggregateRun, step: &Step<'_>) -> Result<Vec<DeviceChunk>> {
        walk.join_tile(step)?;
        Ok(vec![])
    }

    fn next_pairs(
        walk: &mut AggregateRun,
        step: &Step<'_>,
        pairs: Box<PairsOfTile>,
    ) -> Result<Vec<DeviceChunk>> {
        walk.merge_pairs(step, pairs)?;
        Ok(vec![])
    }

    fn next_right_rows(
        walk: &mut AggregateRun,
        _: &Step<'_>,
        mut next: usize,
    ) -> Result<Vec<DeviceChunk>> {
        let merged = walk.merge_unmatched(Side::Right, 0, &mut next);
        walk.state = State::RightEnd { next };
        merged?;
        walk.end_right_chunk();
        Ok(vec![])
    }

    fn next_left_rows(
        walk: &mut AggregateRun,
        _: &Step<'_>,
        chunk: usize,
        mut next: usize,
    ) -> Result<Vec<DeviceChunk>> {
        if chunk >= walk.matrix.left().len() {
            walk.state = State::Done;
            return Ok(vec![]);
        }
        let flags_rows = walk.spec.flags_side(Side::Left);
        let has_counts = walk.has_counts(chunk);
        if flags_rows || has_counts {
            walk.matrix.load_left(chunk)?;
        }
        if has_counts {
            let merged = walk.merge_left_counts(chunk);
            match merged.and_then(|()| walk.merge_waiting()) {
                Err(error)
                    if error.is_out_of_host_memory()
                        && !walk.is_done()
                        && walk.matrix.leave_pool_once()? =>
                {
                    return Ok(vec![]);
                }
                merged => merged?,
            }
            walk.matrix.left_pool = false;
        }
        if flags_rows {
            let merged = walk.merge_unmatched(Side::Left, chunk, &mut next);
            walk.state = State::LeftEnd { chunk, next };
            merged?;
        }
        walk.state = State::LeftEnd {
            chunk: chunk + 1,
            next: 0,
        };
        Ok(vec![])
    }

    fn end_right(walk: &mut AggregateRun) -> Result<bool> {
        let mut chunks = 0..walk.matrix.left().len();
        Ok(walk.spec.flags_side(Side::Left) || chunks.any(|chunk| walk.has_counts(chunk)))
    }

    /// Reserves the memory of the groups in the pool, or else spills them.
    fn after_step(
        walk: &mut AggregateRun,
        made: Result<Vec<DeviceChunk>>,
    ) -> Result<Vec<DeviceChunk>> {
        let made = made?;
        let mut accounted = walk.sink.table.account(0);
        if !matches!(accounted, Ok(true)) && walk.sink.left_groups.give_up() {
            accounted = walk.sink.table.account(0);
        }
        if !accounted? {
            walk.spill_groups()?;
        }
        Ok(made)
    }

    fn leave_pool(walk: &mut AggregateRun) -> Result<()> {
        match walk.sink.left_groups.give_up() || !walk.sink.table.can_spill() {
            true => Ok(()),
            false => walk.spill_groups(),
        }
    }
}

/// The tile that comes next.
enum NextTile {
    Probed(Box<ProbedTile>),
    Placed(Box<PlacedTile>),
}

/// What the first step of a tile made.
enum TileResult {
    States(Vec<(ChunkRows, SideStates)>),
    /// The offsets, the number and the reservation of its candidates; `None` if it has none.
    Pairs(Option<(Buffer<u64>, u64, Lease)>),
}
