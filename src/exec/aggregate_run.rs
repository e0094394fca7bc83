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

use arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array,
    make_array, new_null_array,
};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{cast, nullif, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::utils::normalize_float_zero;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use parking_lot::Mutex;

use super::matrix::{Matrix, NeededColumns, SearchedTile};
use super::metrics::DeviceMetrics;
use super::pieces::PieceSize;
use crate::device::{Buffer, Column, Device, Flags};
use crate::error::{BowtieError, Result};
use crate::ops::theta::RowPairs;
use crate::spec::{AggregateFunction, AggregateSpec, GroupSide, JoinAggregateSpec, Side};
use crate::stream::StagedChunk;

/// Rows without a partner that are merged at once.
const UNMATCHED_ROWS: usize = 8192;

#[derive(Debug)]
enum State {
    NextRight,
    Tiles,
    Pairs(Box<PairsOfTile>),
    RightEnd,
    LeftEnd { chunk: usize },
    Done,
}

#[derive(Debug)]
struct PairsOfTile {
    tile: SearchedTile,
    offsets: Buffer<u64>,
    total: u64,
    next: u64,
    /// Group of each row of the grouped side, once it is known.
    groups: Vec<Option<usize>>,
}

pub(super) struct AggregateRun {
    spec: Arc<JoinAggregateSpec>,
    device: Arc<dyn Device>,
    matrix: Matrix,
    state: State,
    table: GroupTable,
    /// Flags of the side that an outer join preserves.
    left_flags: Vec<Flags>,
    right_flags: Option<Flags>,
    size: PieceSize,
    metrics: DeviceMetrics,
}

/// DataFusion's group values and accumulators.
struct GroupTable {
    /// `None` without GROUP BY: there is one group.
    values: Option<Box<dyn GroupValues>>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    reservation: MemoryReservation,
}

impl GroupTable {
    fn new(spec: &JoinAggregateSpec, reservation: MemoryReservation) -> Result<Self> {
        let values = match spec.group_columns.len() {
            0 => None,
            columns => {
                let fields = spec.schema.fields()[..columns].to_vec();
                let schema: SchemaRef = Arc::new(arrow::datatypes::Schema::new(fields));
                Some(new_group_values(schema, &GroupOrdering::None)?)
            }
        };
        let accumulators = spec
            .aggregates
            .iter()
            .map(|a| Ok(a.aggregate.create_groups_accumulator()?))
            .collect::<Result<_>>()?;
        Ok(Self {
            values,
            accumulators,
            reservation,
        })
    }

    /// Merges the states of no rows into the one group of an aggregation without GROUP BY, which exists even then.
    fn merge_nothing(&mut self, spec: &JoinAggregateSpec) -> Result<()> {
        for (accumulator, aggregate) in self.accumulators.iter_mut().zip(&spec.aggregates) {
            let states: Vec<ArrayRef> = match aggregate.function {
                AggregateFunction::Count => vec![Arc::new(Int64Array::from(vec![0]))],
                _ => aggregate
                    .aggregate
                    .state_fields()?
                    .iter()
                    .map(|field| new_null_array(field.data_type(), 1))
                    .collect(),
            };
            accumulator.merge_batch(&states, &[0], 1)?;
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.values.as_ref().map_or(1, |values| values.len())
    }

    /// Groups of rows, by their group columns.
    fn intern(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        match &mut self.values {
            None => Ok(vec![0; rows]),
            Some(values) => {
                let mut groups = Vec::with_capacity(rows);
                values.intern(columns, &mut groups)?;
                Ok(groups)
            }
        }
    }

    /// Rows of the preserved side without a partner: their partner's columns are NULL.
    fn merge_unmatched(
        &mut self,
        spec: &JoinAggregateSpec,
        device: &dyn Device,
        side: Side,
        chunk: &StagedChunk,
        flags: &Flags,
    ) -> Result<()> {
        for first in (0..chunk.rows()).step_by(UNMATCHED_ROWS) {
            let len = (chunk.rows() - first).min(UNMATCHED_ROWS);
            let rows = device.read(&device.flagged_rows(flags, first, len, false)?)?;
            let rows = UInt32Array::new(rows, None);
            let columns = group_columns(spec, chunk, first, len, &rows)?;
            let groups = self.intern(&columns, rows.len())?;
            let total = self.len();
            for (aggregate, accumulator) in spec.aggregates.iter().zip(&mut self.accumulators) {
                let values: ArrayRef = match aggregate.argument {
                    None => Arc::new(rows.clone()),
                    Some((of, column)) if of == side => {
                        take(&chunk.batch.column(column).slice(first, len), &rows, None)?
                    }
                    Some((other, column)) => {
                        new_null_array(spec.join.input(other).data_type(column), rows.len())
                    }
                };
                accumulator.update_batch(&[values], &groups, None, total)?;
            }
        }
        Ok(())
    }

    fn account(&self) -> Result<()> {
        let values = self.values.as_ref().map_or(0, |values| values.size());
        let states: usize = self.accumulators.iter().map(|a| a.size()).sum();
        Ok(self.reservation.try_resize(values + states)?)
    }

    fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let groups = self.len();
        let mut columns = match &mut self.values {
            None => vec![],
            Some(values) => values.emit(EmitTo::All)?,
        };
        for accumulator in &mut self.accumulators {
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        let columns = columns
            .into_iter()
            .zip(schema.fields())
            .map(
                |(column, field)| match column.data_type() == field.data_type() {
                    true => Ok(column),
                    // Group values come out of the table in their plain type, such as a dictionary's values.
                    false => Ok(cast(&column, field.data_type())?),
                },
            )
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(groups));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }
}

/// How the aggregates of a tile are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Weights of the rows of this side.
    Weighed(Side),
    /// Folds over the ranges of the grouped side's rows.
    Folded,
    Pairs,
}

impl AggregateRun {
    pub(super) fn new(
        device: Arc<dyn Device>,
        spec: Arc<JoinAggregateSpec>,
        left: Vec<StagedChunk>,
        reservation: MemoryReservation,
        metrics: DeviceMetrics,
    ) -> Result<Self> {
        let arguments = spec.aggregates.iter().filter_map(|a| a.argument);
        let needed = NeededColumns::of(&spec.join, arguments);
        let left_flags = match spec.join.flags_side(Side::Left) {
            true => left
                .iter()
                .map(|chunk| device.flags(chunk.rows()))
                .collect::<Result<_>>()?,
            false => vec![],
        };
        let row_bytes = 16 * spec.aggregates.len();
        let mut table = GroupTable::new(&spec, reservation)?;
        if spec.group_columns.is_empty() {
            table.merge_nothing(&spec)?;
        }
        Ok(Self {
            size: PieceSize::new(device.as_ref(), row_bytes),
            matrix: Matrix::new(
                Arc::clone(&device),
                Arc::new(spec.join.clone()),
                needed,
                left,
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

    pub(super) fn wants_right(&self) -> bool {
        matches!(self.state, State::NextRight)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub(super) fn push_right(&mut self, chunk: StagedChunk) -> Result<()> {
        self.right_flags = match self.spec.join.flags_side(Side::Right) {
            true => Some(self.device.flags(chunk.rows())?),
            false => None,
        };
        self.matrix.push_right(chunk);
        self.state = State::Tiles;
        Ok(())
    }

    pub(super) fn end_right(&mut self) {
        self.state = match self.spec.join.flags_side(Side::Left) {
            true => State::LeftEnd { chunk: 0 },
            false => State::Done,
        };
    }

    /// All groups, once the run is done.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        self.table.finish(&self.spec.schema)
    }

    /// Does a bounded amount of work.
    pub(super) fn step(&mut self) -> Result<()> {
        self.try_step()?;
        self.metrics
            .peak_device_bytes
            .set_max(self.device.budget().peak() as usize);
        self.table.account()
    }

    fn try_step(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::NextRight => {
                self.state = State::NextRight;
                Ok(())
            }
            State::Tiles => self.next_tile(),
            State::Pairs(pairs) => self.pairs_step(pairs),
            State::RightEnd => {
                let flags = self.right_flags.take();
                if let (Some(chunk), Some(flags)) = (self.matrix.take_right(), flags) {
                    let device = self.device.as_ref();
                    self.table
                        .merge_unmatched(&self.spec, device, Side::Right, &chunk, &flags)?;
                }
                self.state = State::NextRight;
                Ok(())
            }
            State::LeftEnd { chunk } => {
                let staged = self.matrix.left().get(chunk);
                let (Some(staged), Some(flags)) = (staged, self.left_flags.get(chunk)) else {
                    return Ok(());
                };
                let device = self.device.as_ref();
                self.table
                    .merge_unmatched(&self.spec, device, Side::Left, staged, flags)?;
                self.state = State::LeftEnd { chunk: chunk + 1 };
                Ok(())
            }
            State::Done => Ok(()),
        }
    }

    fn next_tile(&mut self) -> Result<()> {
        let Some(tile) = self.matrix.next(false)? else {
            self.state = match self.spec.join.flags_side(Side::Right) {
                true => State::RightEnd,
                false => {
                    self.matrix.take_right();
                    State::NextRight
                }
            };
            return Ok(());
        };
        self.state = State::Tiles;
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
        let by_pairs = tile.whole_filter
            || self.spec.join.residual.is_some()
            || ways.contains(&Way::Pairs)
            || flagged.is_some_and(|side| !tile.search.counts_side(side))
            // Groups without aggregates still need to know which rows have a match.
            || matches!(self.spec.group_side, GroupSide::Side(side) if !tile.search.counts_side(side));
        if !by_pairs {
            let device = Arc::clone(&self.device);
            if let Some(side) = flagged {
                let (flags, first) = self.flags(side, &tile)?;
                tile.search
                    .flag_matched(device.as_ref(), side, flags, first)?;
            }
            let _timer = self.metrics.output_time.clone();
            let _timer = _timer.timer();
            return self.merge_tile(&tile, &ways);
        }
        let offsets = tile.search.offsets(self.device.as_ref())?;
        let total = self.device.total(&offsets)?;
        self.metrics
            .candidate_pairs
            .add(usize::try_from(total).unwrap_or(usize::MAX));
        if total > 0 {
            let rows = match self.spec.group_side {
                GroupSide::Nothing => 0,
                GroupSide::Side(Side::Left) => tile.left.rows(),
                GroupSide::Side(Side::Right) => tile.right.rows(),
            };
            self.state = State::Pairs(Box::new(PairsOfTile {
                tile,
                offsets,
                total,
                next: 0,
                groups: vec![None; rows],
            }));
        }
        Ok(())
    }

    fn way(&self, aggregate: &AggregateSpec, tile: &SearchedTile) -> Way {
        let weighed = |side: Side| match tile.search.counts_side(side) {
            true => Way::Weighed(side),
            false => Way::Pairs,
        };
        let searching = self.spec.join.theta.sorted.other();
        match (self.spec.group_side, aggregate.argument) {
            (GroupSide::Nothing, None) => Way::Weighed(searching),
            (GroupSide::Nothing, Some((side, _))) => weighed(side),
            (GroupSide::Side(grouped), None) => weighed(grouped),
            (GroupSide::Side(grouped), Some((side, _))) if side == grouped => weighed(grouped),
            (GroupSide::Side(grouped), Some(_)) => {
                match grouped == searching && tile.search.is_untested() {
                    true => Way::Folded,
                    false => Way::Pairs,
                }
            }
        }
    }

    fn merge_tile(&mut self, tile: &SearchedTile, ways: &[Way]) -> Result<()> {
        let device = Arc::clone(&self.device);
        let device = device.as_ref();
        for side in [Side::Left, Side::Right] {
            let grouped = self.spec.group_side == GroupSide::Side(side);
            let wanted: Vec<usize> = (0..ways.len())
                .filter(|i| ways[*i] == Way::Weighed(side) || (grouped && ways[*i] == Way::Folded))
                .collect();
            if wanted.is_empty() && !grouped {
                continue;
            }
            let weights = tile.search.weights(device, side)?;
            let counts = device.read(&weights)?;
            let matched: UInt32Array = (0..counts.len() as u32)
                .filter(|row| counts[*row as usize] > 0)
                .collect();
            let groups = self.groups_of(side, tile, &matched)?;
            for i in wanted {
                let aggregate = &self.spec.aggregates[i];
                let states = match ways[i] {
                    Way::Folded => self.folded(aggregate, tile)?,
                    _ => self.weighed(aggregate, tile, side, &weights)?,
                };
                let types = aggregate.aggregate.state_fields()?;
                let mut states = states
                    .into_iter()
                    .zip(&types)
                    .map(|(state, field)| {
                        let state = take(&device.download(&state)?, &matched, None)?;
                        relabel(state, field.data_type())
                    })
                    .collect::<Result<Vec<_>>>()?;
                if aggregate.function == AggregateFunction::Avg {
                    // DataFusion divides by every count that is not NULL.
                    let nothing = eq(&states[0], &UInt64Array::new_scalar(0))?;
                    states[0] = nullif(&states[0], &nothing)?;
                }
                let total = self.table.len();
                self.table.accumulators[i].merge_batch(&states, &groups, total)?;
            }
        }
        Ok(())
    }

    /// Partial states for each row of `side`, from the number of its matches.
    fn weighed(
        &self,
        aggregate: &AggregateSpec,
        tile: &SearchedTile,
        side: Side,
        weights: &Buffer<u32>,
    ) -> Result<Vec<Arc<Column>>> {
        let device = self.device.as_ref();
        let values = match aggregate.argument {
            Some((_, column)) => Some(tile.of(side).column(column)?),
            None => None,
        };
        let count = || {
            device
                .weigh_count(values.map(AsRef::as_ref), weights)
                .map(Arc::new)
        };
        let argument =
            || values.ok_or_else(|| BowtieError::Internal("an aggregate of nothing".into()));
        match aggregate.function {
            AggregateFunction::Count => Ok(vec![count()?]),
            AggregateFunction::Sum => Ok(vec![Arc::new(device.weigh(argument()?, weights)?)]),
            AggregateFunction::Avg => Ok(vec![
                count()?,
                Arc::new(device.weigh(argument()?, weights)?),
            ]),
            // An extreme does not depend on how often a value occurs.
            AggregateFunction::Min | AggregateFunction::Max => Ok(vec![Arc::clone(argument()?)]),
        }
    }

    /// Partial states for each row of the grouped side, over the matches of its range.
    fn folded(&self, aggregate: &AggregateSpec, tile: &SearchedTile) -> Result<Vec<Arc<Column>>> {
        let device = self.device.as_ref();
        let (side, column) = aggregate
            .argument
            .ok_or_else(|| BowtieError::Internal("a fold of nothing".into()))?;
        let values = tile.of(side).column(column)?;
        let search = &tile.search;
        Ok(match aggregate.function {
            AggregateFunction::Count => vec![search.range_count(device, values)?],
            AggregateFunction::Sum => vec![search.range_sum(device, values)?],
            AggregateFunction::Avg => vec![
                search.range_count(device, values)?,
                search.range_sum(device, values)?,
            ],
            AggregateFunction::Min => vec![search.range_extreme(device, values, false)?],
            AggregateFunction::Max => vec![search.range_extreme(device, values, true)?],
        }
        .into_iter()
        .map(Arc::new)
        .collect())
    }

    /// Groups of rows of the tile, which have a match.
    fn groups_of(
        &mut self,
        side: Side,
        tile: &SearchedTile,
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
        let pieces = self
            .size
            .of_pairs(device, &pairs.offsets, pairs.next, pairs.total)?;
        let made: Vec<Mutex<Option<RowPairs>>> = pieces.iter().map(|_| Mutex::new(None)).collect();
        let result = device.for_each_piece(pieces.len(), &|i| {
            let (from, len) = (pieces[i].start, (pieces[i].end - pieces[i].start) as usize);
            let rows = pairs
                .tile
                .matching_pairs(device, join, &pairs.offsets, from, len)?;
            *made[i].lock() = Some(rows);
            Ok(())
        });
        match result {
            Err(error) if error.is_out_of_device_memory() && self.size.halve() => {}
            result => {
                result?;
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

    fn accumulate(&mut self, pairs: &mut PairsOfTile, rows: &RowPairs) -> Result<()> {
        let device = Arc::clone(&self.device);
        let device = device.as_ref();
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
        let total = self.table.len();
        for (aggregate, accumulator) in self
            .spec
            .aggregates
            .iter()
            .zip(&mut self.table.accumulators)
        {
            let values: ArrayRef = match aggregate.argument {
                Some((side, column)) => {
                    let column = pairs.tile.of(side).column(column)?;
                    device.download(&device.gather(column, rows.of(side))?)?
                }
                // COUNT(*) counts rows: any array without NULLs.
                None => Arc::new(UInt32Array::new(device.read(&rows.left)?, None)),
            };
            accumulator.update_batch(&[values], &groups, None, total)?;
        }
        Ok(())
    }

    fn flags(&self, side: Side, tile: &SearchedTile) -> Result<(&Flags, usize)> {
        let flags = match side {
            Side::Left => self.left_flags.get(tile.left_chunk),
            Side::Right => self.right_flags.as_ref(),
        };
        let flags = flags.ok_or_else(|| BowtieError::Internal("flags were not made".into()))?;
        Ok((flags, tile.first(side)))
    }
}

/// The group columns of `rows`, counted from row `first` of the chunk.
fn group_columns(
    spec: &JoinAggregateSpec,
    chunk: &StagedChunk,
    first: usize,
    len: usize,
    rows: &UInt32Array,
) -> Result<Vec<ArrayRef>> {
    spec.group_columns
        .iter()
        .map(|column| {
            let column = chunk.batch.column(*column).slice(first, len);
            // As DataFusion's own aggregation: −0.0 and 0.0 are one group.
            Ok(normalize_float_zero(&take(&column, rows, None)?))
        })
        .collect()
}

/// The same words under the type of DataFusion's state: a decimal's precision, or an unsigned count.
fn relabel(state: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if state.data_type() == data_type {
        return Ok(state);
    }
    let data = state.to_data().into_builder().data_type(data_type.clone());
    Ok(make_array(data.build()?))
}
