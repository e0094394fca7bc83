//! Groups of a tile's rows, made on the device. In: the states of the rows of the grouped side, and its group columns. Out: distinct groups with
//! their states, of which the table has only to merge those of several tiles.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::datatypes::DataType;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::error::Result;
use crate::exec::aggregate::group_values::Partial;
use crate::exec::aggregate::states::mergeable_states;
use crate::exec::join_aggregate::group_sink::AggregateRun;
use crate::exec::join_aggregate::states::{ChunkRows, StatesOf};
use crate::exec::memory::compact_views::compact_views;
use crate::ir::fold::Fold;
use crate::ir::side::Side;
use crate::ir::strategies::Grouping;
use crate::spec::join_aggregate::GroupSide;

/// Fewer rows are grouped by the table.
const FEW_ROWS: usize = 4096;

impl AggregateRun {
    /// Whether the device groups these rows by the states of `wanted` aggregates, which are all. The table remembers which groups left rows are in, and is as good
    /// where they come again.
    pub(crate) fn groups_on_device(&self, of: &ChunkRows, wanted: &[usize]) -> bool {
        let spec = &self.sink.spec;
        let input = spec.join.input(of.side);
        let mut columns = spec.group_columns.iter();
        spec.group_side == GroupSide::Side(of.side)
            && wanted.len() == spec.aggregates.len()
            && of.rows.len() >= FEW_ROWS
            && (of.side == Side::Right || self.sink.table.is_empty())
            && !spec.group_columns.is_empty()
            && columns.all(|column| is_equal_by_bytes(input.data_type(*column)))
    }

    /// The groups of the rows that have a match, by their `weights`; `None` if these are few.
    pub(crate) fn grouped(
        &self,
        of: &ChunkRows,
        wanted: &[usize],
        weights: &Buffer<u32>,
        states_of: StatesOf<'_>,
    ) -> Result<Option<Partial>> {
        let device = self.device.as_ref();
        let rows = of.rows.len();
        let flags = device.flags(rows)?;
        device.set_flags_counted(&flags, 0, weights)?;
        let matched = device.flagged_rows(&flags, 0, rows, true)?;
        if matched.len() < FEW_ROWS {
            return Ok(None);
        }
        let aggregates = &self.sink.spec.aggregates;
        let ids = UInt32Array::new(device.read(&matched)?, None);
        let keys = self.group_columns_of(of.side, of.left_chunk, of.rows.clone(), &ids)?;
        let keys = keys.into_iter().map(|key| device.upload(&[key]));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let keys: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
        // A row without a match may have a state all the same: an extreme's is its value.
        let of_matched = |state: Arc<Column>| match matched.len() == rows {
            true => Ok(state),
            false => device.gather(&state, &matched).map(Arc::new),
        };
        let mut states = vec![];
        for i in wanted {
            let aggregate = &aggregates[*i];
            let folds = aggregate.function.folds().iter();
            for (fold, state) in folds.zip(states_of(*i, aggregate)?) {
                states.push((fold.of_states(), of_matched(state)?));
            }
        }
        let folds: Vec<(Fold, Option<&Column>)> = states
            .iter()
            .map(|(fold, column)| (*fold, Some(column.as_ref())))
            .collect();
        let groups = device.aggregate(matched.len(), &keys, &folds, Grouping::AUTO)?;
        let mut columns = groups.states.iter();
        let made = wanted.iter().map(|i| {
            let aggregate = &aggregates[*i];
            let columns = columns.by_ref().take(aggregate.function.folds().len());
            let states = columns.map(|column| device.download(column));
            let states = states.collect::<Result<Vec<_>>>()?;
            mergeable_states(aggregate.function, &aggregate.aggregate, states)
        });
        let made = made.collect::<Result<_>>()?;
        let keys = groups.keys.iter();
        let keys = keys.map(|key| compact_views(device.download(key)?));
        Ok(Some(Partial {
            rows: groups.groups,
            keys: keys.collect::<Result<_>>()?,
            states: made,
        }))
    }
}

/// Whether values are equal if and only if their bytes are.
fn is_equal_by_bytes(data_type: &DataType) -> bool {
    let other = matches!(data_type, DataType::Dictionary(_, _));
    !other && !data_type.is_floating() && !data_type.is_nested()
}
