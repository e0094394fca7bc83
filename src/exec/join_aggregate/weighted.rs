//! Partial states of a tile without expanding its matches: values weighted by match counts, and folds over ranges.

use std::sync::Arc;

use arrow::array::UInt32Array;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::exec::join_aggregate::group_sink::AggregateRun;
use crate::exec::join_aggregate::method::FoldMethod;
use crate::exec::join_aggregate::states::{
    ChunkRows, RowStates, SideStates, StatesOf, aggregate_states,
};
use crate::ir::fold::RangeFold;
use crate::ir::side::Side;
use crate::ops::probe::ProbeResult;
use crate::spec::aggregate::AggregateFunction;
use crate::spec::join_aggregate::{AggregateSpec, GroupSide};

impl AggregateRun {
    /// How each aggregate of a tile is computed.
    pub(crate) fn methods_of(&self, tile: &ProbedTile) -> Result<Vec<FoldMethod>> {
        let aggregates = &self.sink.spec.aggregates;
        let weighed = |side: Side| match tile.search.counts_side(side) {
            true => FoldMethod::Weighed(side),
            false => FoldMethod::Pairs,
        };
        let probe = tile.search.build_side.other();
        // The side whose rows have folds of the other side's values. Without groups values are weighed where matches of their rows are counted.
        let rows_of = match self.sink.spec.group_side {
            GroupSide::Nothing => probe,
            GroupSide::Side(grouped) => grouped,
        };
        let other = rows_of.other();
        let is_weighed =
            self.sink.spec.group_side == GroupSide::Nothing && tile.search.counts_side(other);
        let of_other = aggregates
            .iter()
            .filter(|aggregate| matches!(aggregate.argument, Some((side, _)) if side == other));
        let folds: usize = of_other
            .clone()
            .map(|a| folds_of(a.function).map_or(1, <[_]>::len))
            .sum();
        // Text has no kernel: its matches are found on the device, and folded on the host.
        let inputs = self.spec.input(other);
        let have_kernels = of_other.clone().all(|aggregate| match aggregate.argument {
            Some((_, column)) => inputs.data_type(column).is_primitive(),
            None => true,
        });
        let is_walked = !tile.search.is_untested() && !tile.search.folds_by_levels();
        let folded = match folds > 0
            && !is_weighed
            && (have_kernels || !is_walked)
            && tile.search.folds(self.device.as_ref(), other, folds)?
        {
            true => FoldMethod::Folded(rows_of),
            false => FoldMethod::Pairs,
        };
        let methods = aggregates.iter().map(|aggregate| {
            match (self.sink.spec.group_side, aggregate.argument) {
                (GroupSide::Nothing, None) => FoldMethod::Weighed(probe),
                (GroupSide::Nothing, Some((side, _))) if side == probe || is_weighed => {
                    weighed(side)
                }
                (GroupSide::Side(grouped), None) => weighed(grouped),
                (GroupSide::Side(grouped), Some((side, _))) if side == grouped => weighed(grouped),
                (_, Some(_)) => folded,
            }
        });
        Ok(methods.collect())
    }

    /// What must be known of a tile. If match counts of rows suffice for all aggregates, matches are never expanded.
    pub(crate) fn wanted(&self) -> ProbeResult {
        let join = &self.spec;
        let tested = !join.theta.comparisons.is_empty() || !join.residual.is_empty();
        let weighed =
            |aggregate: &AggregateSpec| match (self.sink.spec.group_side, aggregate.argument) {
                (GroupSide::Side(grouped), Some((side, _))) => side == grouped,
                _ => true,
            };
        if tested || !self.sink.spec.aggregates.iter().all(weighed) {
            return ProbeResult::Pairs;
        }
        let build = join.theta.build;
        let arguments = self.sink.spec.aggregates.iter().filter_map(|a| a.argument);
        let counts_build = self.sink.spec.group_side == GroupSide::Side(build)
            || join.flags_side(build)
            || arguments.into_iter().any(|(side, _)| side == build);
        match counts_build {
            true => ProbeResult::Counts,
            false => ProbeResult::ProbeCounts,
        }
    }

    /// The partial states of all aggregates, for the rows of each side that have a match. Nothing is merged yet, so
    /// after an allocation failure the tile can be cut.
    pub(crate) fn states_of_tile(
        &self,
        tile: &ProbedTile,
        methods: &[FoldMethod],
        flagged: Option<Side>,
    ) -> Result<Vec<(ChunkRows, SideStates)>> {
        let timer = self.metrics.output_time.clone();
        let _timer = timer.timer();
        let device = self.device.as_ref();
        if let Some(side) = flagged {
            let (flags, first) = self.flags(side, &tile.tile)?;
            tile.search.flag_matched(device, side, flags, first)?;
        }
        let mut sides = vec![];
        for side in [Side::Left, Side::Right] {
            let grouped = self.sink.spec.group_side == GroupSide::Side(side);
            let wanted: Vec<usize> = (0..methods.len())
                .filter(|i| {
                    matches!(methods[*i], FoldMethod::Weighed(of) | FoldMethod::Folded(of) if of == side)
                })
                .collect();
            if wanted.is_empty() && !grouped {
                continue;
            }
            let weights = tile.search.weights(device, side)?;
            let first = tile.tile.rows(side).start;
            let of = ChunkRows {
                side,
                left_chunk: tile.left_chunk,
                rows: first..first + tile.of(side).rows(),
            };
            sides.push((
                of.clone(),
                self.states_of_side(&of, wanted, &weights, &|i, aggregate| match methods[i] {
                    FoldMethod::Folded(_) => self.folded(aggregate, tile),
                    _ => self.weighed(aggregate, Some(tile.of(side)), &weights),
                })?,
            ));
        }
        Ok(sides)
    }

    /// The states of the `wanted` aggregates, for the rows `of` a side that have a match by their `weights`.
    pub(crate) fn states_of_side(
        &self,
        of: &ChunkRows,
        wanted: Vec<usize>,
        weights: &Buffer<u32>,
        states_of: StatesOf<'_>,
    ) -> Result<SideStates> {
        let device = self.device.as_ref();
        let aggregates = &self.sink.spec.aggregates;
        if self.groups_on_device(of, &wanted)
            && let Some(groups) = self.grouped(of, &wanted, weights, states_of)?
        {
            self.metrics.grouped();
            return Ok(SideStates::ByGroup(groups));
        }
        let in_one_row = self.adds_to_one_row(&wanted);
        let matched: UInt32Array = match in_one_row {
            true => vec![0].into(),
            false => {
                let counts = device.read(weights)?;
                let rows = 0..counts.len() as u32;
                rows.filter(|row| counts[*row as usize] > 0).collect()
            }
        };
        let states = wanted
            .into_iter()
            .map(|i| {
                let aggregate = &aggregates[i];
                let mut states = states_of(i, aggregate)?;
                if in_one_row {
                    for state in &mut states {
                        *state = Arc::new(device.sum(state)?);
                    }
                }
                Ok((i, aggregate_states(device, aggregate, states, &matched)?))
            })
            .collect::<Result<_>>()?;
        Ok(SideStates::ByRow(RowStates { matched, states }))
    }

    /// Whether the device adds up the states of all rows: without groups, and if all aggregates are sums.
    fn adds_to_one_row(&self, aggregates: &[usize]) -> bool {
        use crate::spec::aggregate::AggregateFunction::Avg;
        use crate::spec::aggregate::AggregateFunction::Count;
        use crate::spec::aggregate::AggregateFunction::Sum;
        self.sink.spec.group_side == GroupSide::Nothing
            && aggregates
                .iter()
                .all(|i| matches!(self.sink.spec.aggregates[*i].function, Count | Sum | Avg))
    }

    /// Partial states for each row of a side: its value, if the aggregate has an argument, weighted by the number of its matches.
    pub(crate) fn weighed(
        &self,
        aggregate: &AggregateSpec,
        of_side: Option<&DeviceBatch>,
        weights: &Buffer<u32>,
    ) -> Result<Vec<Arc<Column>>> {
        let device = self.device.as_ref();
        let values = match (aggregate.argument, of_side) {
            (Some((_, column)), Some(of_side)) => Some(of_side.column(column)?),
            _ => None,
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
            // A minimum or maximum does not depend on how often a value occurs.
            AggregateFunction::Min | AggregateFunction::Max => Ok(vec![Arc::clone(argument()?)]),
            other => Err(not_fused(other)),
        }
    }

    /// Partial states for each row of the grouped side: a fold over the rows that it matches of the other side, by their ranges.
    fn folded(&self, aggregate: &AggregateSpec, tile: &ProbedTile) -> Result<Vec<Arc<Column>>> {
        let device = self.device.as_ref();
        let (side, column) = aggregate
            .argument
            .ok_or_else(|| BowtieError::Internal("a fold without a column".into()))?;
        let values = tile.of(side).column(column)?;
        let folds = folds_of(aggregate.function);
        let folds = folds.ok_or_else(|| not_fused(aggregate.function))?;
        let fold = |fold: &RangeFold| tile.search.fold(device, *fold, side, values);
        folds.iter().map(|f| fold(f).map(Arc::new)).collect()
    }
}

/// The states of an aggregate over ranges; `None` if it has none.
fn folds_of(function: AggregateFunction) -> Option<&'static [RangeFold]> {
    Some(match function {
        AggregateFunction::Count => &[RangeFold::Count],
        AggregateFunction::Sum => &[RangeFold::Sum],
        AggregateFunction::Avg => &[RangeFold::Count, RangeFold::Sum],
        AggregateFunction::Min => &[RangeFold::Min],
        AggregateFunction::Max => &[RangeFold::Max],
        _ => return None,
    })
}

/// An internal error: the rule does not fuse this function with a join.
fn not_fused(function: AggregateFunction) -> BowtieError {
    BowtieError::Internal(format!("{function:?} over the ranges of a join"))
}
