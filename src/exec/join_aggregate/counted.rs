//! What [`IntervalCounts`](crate::exec::join_aggregate::intervals::IntervalCounts) makes of the groups: states of right
//! rows with each tile, and those of left rows at the end.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::distinct_rows::are_distinct;
use crate::exec::aggregate::group_values::Partial;
use crate::exec::join::walk::State;
use crate::exec::join_aggregate::group_sink::AggregateRun;
use crate::exec::join_aggregate::intervals::{PlacedTile, RowCounts, counted_side};
use crate::exec::join_aggregate::states::{ChunkRows, SideStates};
use crate::exec::memory::step::Step;
use crate::exec::metrics::AggregatedBy;
use crate::ir::side::Side;
use crate::spec::join_aggregate::GroupSide;

impl AggregateRun {
    /// Merges what the counts of a tile's right rows make, and adds its right rows to the counts of the left ones.
    pub(crate) fn merge_placed(&mut self, step: &Step<'_>, placed: &PlacedTile) -> Result<()> {
        let of = ChunkRows {
            side: Side::Right,
            left_chunk: placed.tile.left_chunk,
            rows: placed.tile.right.clone(),
        };
        let states = match &placed.counts {
            Some(counts) => self.counted_states(&of, counts, || Ok(placed.right.clone())),
            None => Ok(None),
        };
        let states = match states {
            Ok(states) => states,
            Err(error) => return self.matrix.put_back(step, &placed.tile, error),
        };
        self.metrics.aggregated_by(AggregatedBy::Weights);
        // After a failure some counts are added and others are not, so it cannot be retried.
        self.state = State::Done;
        let device = self.device.as_ref();
        if let (Some(flags), Some(counts)) = (&self.right_flags, &placed.counts) {
            device.set_flags_counted(flags, placed.tile.right.start, &counts.weights)?;
        }
        if let Some(intervals) = &mut self.sink.intervals {
            intervals.add(device, placed)?;
        }
        if let Some(states) = states {
            self.merge_states(of, states)?;
        }
        self.state = State::Tiles;
        Ok(())
    }

    /// The states of the aggregates that weigh the rows `of` a side, whose columns are in `batch`; `None` if no aggregate does, and these
    /// rows are no groups.
    fn counted_states(
        &self,
        of: &ChunkRows,
        counts: &RowCounts,
        batch: impl Fn() -> Result<DeviceBatch>,
    ) -> Result<Option<SideStates>> {
        let (spec, side) = (&self.sink.spec, of.side);
        let aggregates = spec.aggregates.iter().enumerate();
        let of_side = aggregates.filter(|(_, a)| counted_side(spec, a) == Some(side));
        let wanted: Vec<usize> = of_side.map(|(i, _)| i).collect();
        if wanted.is_empty() && spec.group_side != GroupSide::Side(side) {
            return Ok(None);
        }
        let device = self.device.as_ref();
        let known = OnceCell::new();
        let batch = || match known.get() {
            Some(batch) => Ok(batch),
            None => batch().map(|batch| known.get_or_init(|| batch)),
        };
        let states =
            self.states_of_side(of, wanted, &counts.weights, &|_, aggregate| match aggregate
                .argument
            {
                Some((other, column)) if other != side => {
                    let values = counts.of_column(column).ok_or_else(|| {
                        BowtieError::Internal("values that were not counted".into())
                    })?;
                    Ok(vec![Arc::new(device.weigh_count(None, values)?)])
                }
                Some(_) => self.weighed(aggregate, Some(batch()?), &counts.weights),
                None => self.weighed(aggregate, None, &counts.weights),
            });
        states.map(Some)
    }

    /// Merges the states of a left chunk's rows, if they were counted, and sets the flags of those that have a match.
    pub(crate) fn merge_left_counts(&mut self, left_chunk: usize) -> Result<()> {
        let Some(intervals) = &mut self.sink.intervals else {
            return Ok(());
        };
        let device = Arc::clone(&self.device);
        let counts = intervals.left_counts(device.as_ref(), &self.spec, left_chunk)?;
        let Some(counts) = counts else {
            return Ok(());
        };
        let is_complete = intervals.are_complete();
        let batch = || self.matrix.left_batch(left_chunk);
        let of = ChunkRows {
            side: Side::Left,
            left_chunk,
            rows: 0..self.matrix.left()[left_chunk].rows(),
        };
        let states = self.counted_states(&of, &counts, batch)?;
        // After a failure some states are merged and others are not, so it cannot be retried.
        let state = std::mem::replace(&mut self.state, State::Done);
        if let Some(flags) = self.left_flags.get(left_chunk) {
            device.set_flags_counted(flags, 0, &counts.weights)?;
        }
        if let Some(intervals) = &mut self.sink.intervals {
            intervals.merged(left_chunk);
        }
        if let Some(states) = states {
            self.merge_left_states(of, states, is_complete)?;
        }
        self.state = state;
        Ok(())
    }

    /// Merges states of left rows. If they are complete, rows with distinct keys are the groups.
    fn merge_left_states(
        &mut self,
        of: ChunkRows,
        states: SideStates,
        are_complete: bool,
    ) -> Result<()> {
        if let SideStates::ByRow(of_rows) = &states
            && are_complete
            && self.sink.spec.group_side == GroupSide::Side(Side::Left)
        {
            let rows = &of_rows.matched;
            let keys = self.group_columns_of(Side::Left, of.left_chunk, of.rows.clone(), rows)?;
            if are_distinct(&keys)? {
                return self.sink.table.merge_distinct(Partial {
                    rows: rows.len(),
                    keys,
                    states: of_rows.states.iter().map(|(_, of)| of.clone()).collect(),
                });
            }
        }
        self.merge_states(of, states)
    }
}
