//! Groups that are runs of equal keys, for rows that are in an order of their keys already (\[D\] table 1, segmented reduction). Parts of the rows are
//! folded several at a time.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::aggregate::fold::{CancelCheck, fold_groups};
use crate::device::host::aggregate::grouped::{Grouped, concatenated};
use crate::device::host::keys::row_order::{RowOrder, Zeros};
use crate::error::Result;
use crate::ir::fold::Fold;
use crate::ir::strategies::GroupStrategy;

/// The fewest rows for which runs are folded in parts.
const PART_ROWS: usize = 1 << 15;

/// Groups that are runs of equal keys; `None` where rows are in no order of their keys.
pub(super) fn by_runs(
    budget: &Arc<Budget>,
    keys: &[&Column],
    folds: &[(Fold, Option<&Column>)],
    check_cancelled: CancelCheck<'_>,
) -> Result<Option<Grouped>> {
    let arrays = keys.iter().map(|key| Ok(Arc::clone(key.on_host()?)));
    let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
    let rows = arrays[0].len();
    // Of the ids that parts are given, and of the first rows.
    let _ids = budget.lease(rows as u64 * 4, "group ids")?;
    let first_rows = budget.lease(rows as u64 * 12, "groups")?;
    let Some(heads) = RowOrder::any(&arrays, Zeros::Equal)?.and_then(|order| order.runs(rows))
    else {
        return Ok(None);
    };
    drop(first_rows);
    let lease = budget.lease(heads.len() as u64 * 4, "groups")?;
    let parts = match folds
        .iter()
        .any(|(_, values)| values.is_some_and(shares_text))
    {
        // Extremes of several parts would have the text of all of them, each.
        true => vec![(0..heads.len(), 0..rows)],
        false => parts_of(&heads, rows),
    };
    let states = parts
        .par_iter()
        .map(|(groups, rows)| {
            let heads = &heads[groups.clone()];
            let ends = heads[1..]
                .iter()
                .map(|head| *head as usize)
                .chain([rows.end]);
            let lengths = heads
                .iter()
                .zip(ends)
                .map(|(head, end)| end - *head as usize);
            let ids: Vec<u32> = (0..)
                .zip(lengths)
                .flat_map(|(id, rows)| iter::repeat_n(id, rows))
                .collect();
            let values = folds.iter().map(|(fold, values)| {
                let values = values
                    .map(|values| part_of(budget, values, rows))
                    .transpose()?;
                Ok((*fold, values))
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let folds: Vec<_> = values
                .iter()
                .map(|(fold, values)| (*fold, values.as_ref()))
                .collect();
            Ok(fold_groups(budget, &ids, heads.len(), &folds, check_cancelled)?.1)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Some(Grouped {
        firsts: Buffer::host(heads, lease),
        states: concatenated(budget, states, folds.len())?,
        strategy: Some(GroupStrategy::Runs),
    }))
}

/// Ranges of groups of about as many rows each, with their rows.
fn parts_of(heads: &[u32], rows: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let parts = (rows / PART_ROWS).clamp(1, 2 * rayon::current_num_threads());
    let mut cuts: Vec<usize> = (0..parts)
        .map(|part| heads.partition_point(|head| (*head as usize) < part * rows / parts))
        .collect();
    cuts.push(heads.len());
    cuts.dedup();
    let row = |group: usize| heads.get(group).map_or(rows, |head| *head as usize);
    let parts = cuts
        .windows(2)
        .map(|cuts| (cuts[0]..cuts[1], row(cuts[0])..row(cuts[1])));
    parts.collect()
}

/// Whether some rows of a column keep all of its text.
fn shares_text(column: &Column) -> bool {
    let array = column.on_host();
    array.is_ok_and(|array| {
        matches!(
            array.data_type(),
            DataType::Utf8View | DataType::BinaryView | DataType::Dictionary(..)
        )
    })
}

/// Some rows of a column, which holds them.
fn part_of(budget: &Arc<Budget>, column: &Column, rows: &Range<usize>) -> Result<Column> {
    let values = column.on_host()?.slice(rows.start, rows.len());
    Ok(Column::host(values, budget.lease(0, "values")?))
}
