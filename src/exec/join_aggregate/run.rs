//! [`AggregateRun`]: one execution of an aggregation over a join, a short blocking step at a time.
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
use crate::device::data::structures::Flags;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::group_table::GroupTable;
use crate::exec::aggregate::group_values::group_columns;
use crate::exec::input::chunk::InputChunk;
use crate::exec::input::prefetch::Prefetched;
use crate::exec::join::needed_columns::NeededColumns;
use crate::exec::join::piece_size::PieceSize;
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::exec::join_aggregate::method::Way;
use crate::exec::join_aggregate::states::SideStates;
use crate::exec::memory::retry::{flags_retry_exclusive, retry_exclusive, shared_step};
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::spec::join_aggregate::{GroupSide, JoinAggregateSpec};

#[derive(Debug)]
pub(crate) enum State {
    NextRight,
    Tiles,
    Pairs(Box<PairsOfTile>),
    /// Rows of the right chunk at hand without a partner, from row `next` on.
    RightEnd {
        next: usize,
    },
    /// Those of left chunk `chunk`.
    LeftEnd {
        chunk: usize,
        next: usize,
    },
    Done,
}

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

pub(crate) struct AggregateRun {
    pub(crate) spec: Arc<JoinAggregateSpec>,
    pub(crate) device: Arc<dyn Device>,
    pub(crate) matrix: Matrix,
    pub(crate) state: State,
    pub(crate) table: GroupTable,
    /// Flags of the side that an outer join preserves.
    left_flags: Vec<Flags>,
    right_flags: Option<Flags>,
    pub(crate) size: PieceSize,
    pub(crate) metrics: DeviceMetrics,
}

impl AggregateRun {
    /// May block.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        spec: Arc<JoinAggregateSpec>,
        left: Vec<InputChunk>,
        reservation: MemoryReservation,
        spilling: Option<Spilling>,
        metrics: DeviceMetrics,
    ) -> Result<Self> {
        let arguments = spec.aggregates.iter().filter_map(|a| a.argument);
        let needed = NeededColumns::of(&spec.join, arguments);
        let left_flags = match spec.join.flags_side(Side::Left) {
            true => left
                .iter()
                .map(|chunk| flags_retry_exclusive(device.as_ref(), chunk.rows()))
                .collect::<Result<_>>()?,
            false => vec![],
        };
        let aggregates = spec.aggregates.iter().map(|a| &a.aggregate);
        let table = GroupTable::new(
            &spec.schema,
            spec.group_columns.len(),
            aggregates,
            reservation,
            spilling.clone(),
        )?;
        Ok(Self {
            size: PieceSize::new(device.as_ref()),
            matrix: Matrix::new(
                Arc::clone(&device),
                Arc::new(spec.join.clone()),
                needed,
                left,
                spilling,
                metrics.clone(),
            ),
            spec,
            device,
            state: State::NextRight,
            table,
            left_flags,
            right_flags: None,
            metrics,
        })
    }

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
        self.right_flags = match self.spec.join.flags_side(Side::Right) {
            true => Some(flags_retry_exclusive(self.device.as_ref(), chunk.rows())?),
            false => None,
        };
        let row_bytes = self.matrix.row_bytes(Some(chunk))? + 16 * self.spec.aggregates.len();
        self.size.fit(self.device.as_ref(), row_bytes);
        self.matrix.push_right(arriving)?;
        self.state = State::Tiles;
        Ok(())
    }

    pub(crate) fn end_right(&mut self) {
        self.state = match self.spec.join.flags_side(Side::Left) {
            true => State::LeftEnd { chunk: 0, next: 0 },
            false => State::Done,
        };
    }

    /// The next groups, once the run is done; `None` when all came out.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let device = Arc::clone(&self.device);
        self.table.next(&|| device.go_on())
    }

    /// Does a bounded amount of work.
    pub(crate) fn step(&mut self) -> Result<()> {
        let device = Arc::clone(&self.device);
        retry_exclusive(device.as_ref(), self, Self::try_step, |run| !run.is_done())?;
        self.matrix.count_late_uploads();
        self.metrics
            .peak_device_bytes
            .set_max(self.device.budget().peak() as usize);
        match self.table.account(0)? {
            true => Ok(()),
            false => self.spill_groups(),
        }
    }

    /// Takes what it can to files, as somebody else found no room.
    pub(crate) fn leave_pool(&mut self) -> Result<()> {
        self.matrix.leave_pool()?;
        match self.table.can_spill() {
            true => self.spill_groups(),
            false => Ok(()),
        }
    }

    fn spill_groups(&mut self) -> Result<()> {
        self.table.spill()?;
        if let State::Pairs(pairs) = &mut self.state {
            pairs.groups.fill(None);
        }
        Ok(())
    }

    /// A step that fails leaves a state behind from which it can be done once more, or [`State::Done`].
    fn try_step(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::NextRight => {
                self.state = State::NextRight;
                Ok(())
            }
            State::Tiles => {
                self.state = State::Tiles;
                self.next_tile()
            }
            State::Pairs(pairs) => self.pairs_step(pairs),
            State::RightEnd { mut next } => {
                if let (Some(chunk), Some(flags)) = (self.matrix.right(), &self.right_flags) {
                    let (spec, device) = (&self.spec, self.device.as_ref());
                    let side = Side::Right;
                    let merged = self
                        .table
                        .merge_unmatched(spec, device, side, chunk, flags, &mut next);
                    self.state = State::RightEnd { next };
                    merged?;
                }
                self.right_flags = None;
                self.matrix.take_right();
                self.state = State::NextRight;
                Ok(())
            }
            State::LeftEnd { chunk, mut next } => {
                self.matrix.load_left(chunk)?;
                let staged = self.matrix.left().get(chunk);
                let (Some(staged), Some(flags)) = (staged, self.left_flags.get(chunk)) else {
                    return Ok(());
                };
                let (spec, device) = (&self.spec, self.device.as_ref());
                let side = Side::Left;
                let merged = self
                    .table
                    .merge_unmatched(spec, device, side, staged, flags, &mut next);
                self.state = State::LeftEnd { chunk, next };
                merged?;
                self.state = State::LeftEnd {
                    chunk: chunk + 1,
                    next: 0,
                };
                Ok(())
            }
            State::Done => Ok(()),
        }
    }

    fn next_tile(&mut self) -> Result<()> {
        let wanted = self.wanted();
        let Some(tile) = self.matrix.next(wanted)? else {
            self.state = match self.spec.join.flags_side(Side::Right) {
                true => State::RightEnd { next: 0 },
                false => {
                    self.matrix.take_right();
                    State::NextRight
                }
            };
            return Ok(());
        };
        let ways: Vec<Way> = self
            .spec
            .aggregates
            .iter()
            .map(|a| self.way(a, &tile))
            .collect();
        let flagged = [Side::Left, Side::Right]
            .into_iter()
            .find(|side| self.spec.join.flags_side(*side));
        // Also without any aggregate, as in SELECT DISTINCT.
        let by_pairs = !tile.filters(&self.spec.join).is_empty()
            || ways.contains(&Way::Pairs)
            || flagged.is_some_and(|side| !tile.search.counts_side(side))
            // Groups without aggregates still need to know which rows have a match.
            || matches!(self.spec.group_side, GroupSide::Side(side) if !tile.search.counts_side(side));
        let begun = match by_pairs {
            true => self.begin_pairs(&tile).map(Begun::Pairs),
            false => self
                .states_of_tile(&tile, &ways, flagged)
                .map(Begun::States),
        };
        match begun {
            Ok(Begun::States(states)) => {
                // Some of them are in when others are not.
                self.state = State::Done;
                self.merge_states(&tile, states)?;
                self.state = State::Tiles;
                Ok(())
            }
            Ok(Begun::Pairs(Some((offsets, total, lease)))) => {
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
            Ok(Begun::Pairs(None)) => Ok(()),
            Err(error) if error.is_divisible() && self.matrix.put_back(&tile, &error) => Ok(()),
            Err(error) => Err(error),
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
                self.table.merge(i, &states, &groups)?;
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
        if self.spec.group_side != GroupSide::Side(side) {
            return Ok(vec![0; rows.len()]);
        }
        let chunk = match side {
            Side::Left => &self.matrix.left()[tile.left_chunk],
            Side::Right => self
                .matrix
                .right()
                .ok_or_else(|| BowtieError::Internal("no right chunk at hand".into()))?,
        };
        let first = tile.first(side);
        let columns = group_columns(&self.spec, chunk, first, tile.of(side).rows(), rows)?;
        self.table.intern(&columns, rows.len())
    }

    pub(crate) fn flags(&self, side: Side, tile: &ProbedTile) -> Result<(&Flags, usize)> {
        let flags = match side {
            Side::Left => self.left_flags.get(tile.left_chunk),
            Side::Right => self.right_flags.as_ref(),
        };
        let flags = flags.ok_or_else(|| BowtieError::Internal("flags were not made".into()))?;
        Ok((flags, tile.first(side)))
    }
}

/// How a tile begins.
enum Begun {
    States(Vec<SideStates>),
    /// Offsets and number of its pairs, if any.
    Pairs(Option<(Buffer<u64>, u64, Lease)>),
}
