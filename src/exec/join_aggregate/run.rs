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
use parking_lot::Mutex;

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
use crate::exec::join::probed_tile::ProbedTile;
use crate::exec::join::tiles::Matrix;
use crate::exec::join_aggregate::method::Way;
use crate::exec::join_aggregate::states::{PairValues, SideStates};
use crate::exec::memory::retry::{flags_retry_exclusive, retry_exclusive, shared_step};
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::spec::join_aggregate::{GroupSide, JoinAggregateSpec};

#[derive(Debug)]
enum State {
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
struct PairsOfTile {
    tile: ProbedTile,
    offsets: Buffer<u64>,
    total: u64,
    next: u64,
    /// Group of each row of the grouped side, once it is known.
    groups: Vec<Option<usize>>,
    _lease: Lease,
}

pub(crate) struct AggregateRun {
    pub(crate) spec: Arc<JoinAggregateSpec>,
    pub(crate) device: Arc<dyn Device>,
    matrix: Matrix,
    state: State,
    table: GroupTable,
    /// Flags of the side that an outer join preserves.
    left_flags: Vec<Flags>,
    right_flags: Option<Flags>,
    size: PieceSize,
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
            Err(error)
                if error.is_out_of_device_memory() && self.matrix.put_back(&tile, &error) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Rows of the tile on the grouped side.
    fn grouped_rows(&self, tile: &ProbedTile) -> usize {
        match self.spec.group_side {
            GroupSide::Nothing => 0,
            GroupSide::Side(side) => tile.of(side).rows(),
        }
    }

    /// Offsets and number of the tile's pairs, and a lease for their rows' groups; `None` when it has none.
    fn begin_pairs(&self, tile: &ProbedTile) -> Result<Option<(Buffer<u64>, u64, Lease)>> {
        let offsets = tile.search.offsets(self.device.as_ref())?;
        let total = self.device.total(&offsets)?;
        let groups = self.grouped_rows(tile) * size_of::<Option<usize>>();
        let lease = self.device.budget().lease(groups as u64, "group ids")?;
        self.metrics
            .candidate_pairs
            .add(usize::try_from(total).unwrap_or(usize::MAX));
        Ok((total > 0).then_some((offsets, total, lease)))
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
    fn groups_of(
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

    fn pairs_step(&mut self, mut pairs: Box<PairsOfTile>) -> Result<()> {
        let timer = self.metrics.output_time.clone();
        let _timer = timer.timer();
        let (device, join) = (self.device.as_ref(), &self.spec.join);
        let pieces = match self
            .size
            .of_pairs(device, &pairs.offsets, pairs.next, pairs.total)
        {
            Err(error) if error.is_out_of_device_memory() && self.size.halve() => {
                self.state = State::Pairs(pairs);
                return Ok(());
            }
            Err(error) => {
                self.state = State::Pairs(pairs);
                return Err(error);
            }
            Ok(pieces) => pieces,
        };
        let made: Vec<Mutex<Option<PairValues>>> =
            pieces.iter().map(|_| Mutex::new(None)).collect();
        let spec = &self.spec;
        let result = device.for_each_piece(pieces.len(), &|i| {
            let (from, len) = (pieces[i].start, (pieces[i].end - pieces[i].start) as usize);
            let rows = pairs
                .tile
                .matching_pairs(device, join, &pairs.offsets, from, len)?;
            *made[i].lock() = Some(PairValues::gather(device, spec, &pairs.tile, rows)?);
            Ok(())
        });
        match result {
            Err(error)
                if error.is_out_of_device_memory()
                    && (self.size.halve() || self.matrix.make_room()) => {}
            Err(error) => {
                self.state = State::Pairs(pairs);
                return Err(error);
            }
            Ok(()) => {
                self.size.made();
                for piece in made.into_iter().filter_map(Mutex::into_inner) {
                    self.accumulate(&mut pairs, &piece)?;
                }
                pairs.next = pieces.last().map_or(pairs.total, |piece| piece.end);
            }
        }
        self.state = match pairs.next < pairs.total {
            true => State::Pairs(pairs),
            false => State::Tiles,
        };
        Ok(())
    }

    fn accumulate(&mut self, pairs: &mut PairsOfTile, made: &PairValues) -> Result<()> {
        let device = Arc::clone(&self.device);
        let device = device.as_ref();
        let rows = &made.rows;
        for side in [Side::Left, Side::Right] {
            if self.spec.join.flags_side(side) {
                let (flags, first) = self.flags(side, &pairs.tile)?;
                device.set_flags(flags, first, rows.of(side))?;
            }
        }
        let groups = match self.spec.group_side {
            GroupSide::Nothing => vec![0; rows.len()],
            GroupSide::Side(side) => {
                let ids = device.read(rows.of(side))?;
                let mut fresh: Vec<u32> = ids
                    .iter()
                    .copied()
                    .filter(|row| pairs.groups[*row as usize].is_none())
                    .collect();
                fresh.sort_unstable();
                fresh.dedup();
                let fresh = UInt32Array::from(fresh);
                let found = self.groups_of(side, &pairs.tile, &fresh)?;
                for (row, group) in fresh.values().iter().zip(found) {
                    pairs.groups[*row as usize] = Some(group);
                }
                ids.iter()
                    .map(|row| pairs.groups[*row as usize].unwrap_or_default())
                    .collect()
            }
        };
        for (i, values) in made.values.iter().enumerate() {
            self.table.update(i, values, &groups)?;
        }
        Ok(())
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
