//! Groups of a tile's rows, made on the device. In: the states of the rows of the grouped side, and its group columns. Out: distinct groups with
//! their states, of which the table has only to merge those of several tiles.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::{filter, prep_null_mask_filter};
use arrow::datatypes::{DataType, Int64Type};

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};
use crate::exec::aggregate::group_values::Partial;
use crate::exec::aggregate::states::mergeable_states;
use crate::exec::join_aggregate::group_sink::AggregateRun;
use crate::exec::memory::compact_views::compact_views;
use crate::ir::fold::Fold;
use crate::ir::side::Side;
use crate::spec::join_aggregate::GroupSide;

/// Fewer rows are grouped by the table.
const FEW_ROWS: usize = 4096;

/// Rows of a chunk: of a left one, or of the current right one.
#[derive(Debug, Clone)]
pub(crate) struct ChunkRows {
    pub(crate) side: Side,
    pub(crate) left_chunk: usize,
    pub(crate) rows: Range<usize>,
}

/// An aggregate, by its number, and its states by row.
pub(crate) type DeviceStates = (usize, Vec<Arc<Column>>);

impl AggregateRun {
    /// Whether the device groups these rows by the states of `wanted` aggregates. The table remembers which groups left rows are in, and is as good
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

    /// The groups of the rows that have a match, by their `weights`.
    pub(crate) fn grouped(
        &self,
        of: &ChunkRows,
        weights: &Buffer<u32>,
        states: Vec<DeviceStates>,
    ) -> Result<Partial> {
        let device = self.device.as_ref();
        let all = UInt32Array::from_iter_values(0..of.rows.len() as u32);
        let keys = self.group_columns_of(of.side, of.left_chunk, of.rows.clone(), &all)?;
        let keys = keys.into_iter().map(|key| device.upload(&[key]));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let keys: Vec<&Column> = keys.iter().map(AsRef::as_ref).collect();
        let matches = device.weigh_count(None, weights)?;
        let aggregates = &self.sink.spec.aggregates;
        let mut folds: Vec<(Fold, Option<&Column>)> = vec![(Fold::Sum, Some(&matches))];
        for (i, columns) in &states {
            let of_states = aggregates[*i].function.folds();
            let of_states = of_states.iter().map(|fold| fold.of_states());
            let columns = columns.iter().map(|column| Some(column.as_ref()));
            folds.extend(of_states.zip(columns));
        }
        let groups = device.aggregate(of.rows.len(), &keys, &folds, None)?;
        let mut columns = groups.states.iter();
        let mut next = || {
            let column = columns.next();
            let column = column.ok_or_else(|| BowtieError::Internal("too few states".into()))?;
            device.download(column)
        };
        let matched = matched(&next()?);
        let kept = |array: ArrayRef| -> Result<ArrayRef> {
            match &matched {
                Some(matched) => Ok(filter(&array, matched)?),
                None => Ok(array),
            }
        };
        let made = states.iter().map(|(i, columns)| {
            let aggregate = &aggregates[*i];
            let states = columns.iter().map(|_| kept(next()?));
            let states = states.collect::<Result<Vec<_>>>()?;
            let states = mergeable_states(aggregate.function, &aggregate.aggregate, states)?;
            Ok((*i, states))
        });
        let mut made = made.collect::<Result<Vec<_>>>()?;
        // In the order of the aggregates, each of which has states of the grouped side.
        made.sort_by_key(|(i, _)| *i);
        let keys = groups.keys.iter();
        let keys = keys.map(|key| compact_views(kept(device.download(key)?)?));
        let rows = matched.as_ref().map(BooleanArray::true_count);
        Ok(Partial {
            rows: rows.unwrap_or(groups.groups),
            keys: keys.collect::<Result<_>>()?,
            states: made.into_iter().map(|(_, states)| states).collect(),
        })
    }
}

/// Which groups have a match; `None` if all do.
fn matched(matches: &ArrayRef) -> Option<BooleanArray> {
    let matches = matches.as_primitive::<Int64Type>();
    let has_some = BooleanArray::from_unary(matches, |matches| matches > 0);
    // A sum of nothing but NULLs.
    let has_some = match has_some.null_count() {
        0 => has_some,
        _ => prep_null_mask_filter(&has_some),
    };
    (has_some.true_count() < matches.len()).then_some(has_some)
}

/// Whether values are equal if and only if their bytes are.
fn is_equal_by_bytes(data_type: &DataType) -> bool {
    let other = matches!(data_type, DataType::Dictionary(_, _));
    !other && !data_type.is_floating() && !data_type.is_nested()
}
