//! [`GroupSink`]: matches become partial states of groups.
//!
//! For each tile of the join matrix partial states are made and merged into DataFusion's own accumulators, which then
//! finish them: overflow, NULL and the result types are DataFusion's. Three ways lead to the states, the first that serves
//! all aggregates is taken:
//!
//! | argument on | how | cost of a tile |
//! |---|---|---|
//! | the side whose rows are grouped (or nothing is) | each value weighed by the number of its row's matches | O(n + m) |
//! | the other side, when that is sorted and nothing is tested | folded over each row's range | O(n + m) |
//! | anywhere | pair by pair: arguments only are gathered | O(pairs) |

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use datafusion::execution::memory_pool::MemoryReservation;

use crate::device::budget::Lease;
use crate::device::data::buffer::Buffer;
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::group_table::GroupTable;
use crate::exec::aggregate::group_values::group_columns;
use crate::exec::chunk::DeviceChunk;
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::exec::join::walk::{JoinWalk, MatchSink, State, WalkInputs};
use crate::exec::join_aggregate::method::FoldMethod;
use crate::exec::join_aggregate::states::SideStates;
use crate::exec::memory::step::Step;
use crate::ir::side::Side;
use crate::spec::join_aggregate::{GroupSide, JoinAggregateSpec};

#[derive(Debug)]
pub(crate) struct PairsOfTile {
    pub(crate) tile: ProbedTile,
    pub(crate) offsets: Buffer<u64>,
    pub(crate) total: u64,
    pub(crate) next: u64,
    /// Group of each row of the grouped side, once it is known.
    pub(crate) groups: Vec<Option<usize>>,
    _lease: Lease,
}

/// What groups are made with, beside the walk.
pub(crate) struct GroupSink {
    pub(crate) spec: Arc<JoinAggregateSpec>,
    pub(crate) table: GroupTable,
}

pub(crate) type AggregateRun = JoinWalk<GroupSink>;

impl AggregateRun {
    /// The walk that aggregates the join of `spec`; the table of groups is reserved by `reservation`. May block.
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
        let sink = GroupSink {
            spec: Arc::clone(&spec),
            table,
        };
        let arguments = spec.aggregates.iter().filter_map(|a| a.argument);
        Self::new(inputs, arguments, sink)
    }

    /// The next groups, once the walk is done; `None` when all came out.
    pub(crate) fn next_groups(&mut self) -> Result<Option<RecordBatch>> {
        let device = Arc::clone(&self.device);
        self.sink.table.next(&|| device.check_cancelled())
    }

    fn spill_groups(&mut self) -> Result<()> {
        self.sink.table.spill()?;
        if let State::Pairs(pairs) = &mut self.state {
            pairs.groups.fill(None);
        }
        Ok(())
    }

    fn join_tile(&mut self, step: &Step<'_>) -> Result<()> {
        let wanted = self.wanted();
        let Some(tile) = self.matrix.next(step, wanted)? else {
            self.end_tiles();
            return Ok(());
        };
        let methods: Vec<FoldMethod> = self
            .sink
            .spec
            .aggregates
            .iter()
            .map(|a| self.method_of(a, &tile))
            .collect();
        let flagged = [Side::Left, Side::Right]
            .into_iter()
            .find(|side| self.spec.flags_side(*side));
        // Also without any aggregate, as in SELECT DISTINCT.
        let by_pairs = !tile.filters(&self.spec).is_empty()
            || methods.contains(&FoldMethod::Pairs)
            || flagged.is_some_and(|side| !tile.search.counts_side(side))
            // Groups without aggregates still need to know which rows have a match.
            || matches!(self.sink.spec.group_side, GroupSide::Side(side) if !tile.search.counts_side(side));
        let begun = match by_pairs {
            true => self.begin_pairs(&tile).map(StepResult::Pairs),
            false => self
                .states_of_tile(&tile, &methods, flagged)
                .map(StepResult::States),
        };
        match begun {
            Ok(StepResult::States(states)) => {
                // Some of them are in when others are not.
                self.state = State::Done;
                self.merge_states(&tile, states)?;
                self.state = State::Tiles;
                Ok(())
            }
            Ok(StepResult::Pairs(Some((offsets, total, lease)))) => {
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
            Ok(StepResult::Pairs(None)) => Ok(()),
            Err(error) => self.matrix.put_back(step, &tile.tile, error),
        }
    }

    fn merge_states(&mut self, tile: &ProbedTile, sides: Vec<SideStates>) -> Result<()> {
        for SideStates {
            side,
            matched,
            states,
        } in sides
        {
            let groups = self.groups_of(side, tile, &matched)?;
            for (i, states) in states {
                self.sink.table.merge(i, &states, &groups)?;
            }
        }
        Ok(())
    }

    /// Groups of rows of the tile, which have a match.
    pub(crate) fn groups_of(
        &mut self,
        side: Side,
        tile: &ProbedTile,
        rows: &UInt32Array,
    ) -> Result<Vec<usize>> {
        if self.sink.spec.group_side != GroupSide::Side(side) {
            return Ok(vec![0; rows.len()]);
        }
        let chunk = match side {
            Side::Left => &self.matrix.left()[tile.left_chunk],
            Side::Right => self
                .matrix
                .right()
                .ok_or_else(|| BowtieError::Internal("no current right chunk".into()))?,
        };
        let first = tile.first(side);
        let columns = group_columns(&self.sink.spec, chunk, first, tile.of(side).rows(), rows)?;
        self.sink.table.intern(&columns, rows.len())
    }

    /// Groups of the rows of a chunk without a match, from row `next` on.
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
        let (GroupSink { spec, table }, device) = (&mut self.sink, self.device.as_ref());
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
        walk.matrix.load_left(chunk)?;
        let merged = walk.merge_unmatched(Side::Left, chunk, &mut next);
        walk.state = State::LeftEnd { chunk, next };
        merged?;
        walk.state = State::LeftEnd {
            chunk: chunk + 1,
            next: 0,
        };
        Ok(vec![])
    }

    /// Reserves what the groups take, or spills them.
    fn after_step(
        walk: &mut AggregateRun,
        made: Result<Vec<DeviceChunk>>,
    ) -> Result<Vec<DeviceChunk>> {
        let made = made?;
        if !walk.sink.table.account(0)? {
            walk.spill_groups()?;
        }
        Ok(made)
    }

    fn leave_pool(walk: &mut AggregateRun) -> Result<()> {
        match walk.sink.table.can_spill() {
            true => walk.spill_groups(),
            false => Ok(()),
        }
    }
}

/// How a tile begins.
enum StepResult {
    States(Vec<SideStates>),
    /// Offsets and number of its pairs, if any.
    Pairs(Option<(Buffer<u64>, u64, Lease)>),
}
