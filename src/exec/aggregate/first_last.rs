//! The first or last row of each group in an order, in the form that DataFusion's FIRST_VALUE and LAST_VALUE merge. In:
//! a batch. Out: the states of each group.
//!
//! ```text
//! group ids of the rows ─► row by row, by DataFusion's own comparison ─► a row for each group: value, order columns
//! ```
//!
//! Of ties the first row is kept, as in DataFusion's grouped accumulator. Cases in which ties are resolved otherwise
//! are declined.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::{LexicographicalComparator, SortColumn, take};
use arrow::datatypes::UInt32Type;

use crate::device::batches::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::exec::aggregate::collect_values::RowGroups;
use crate::exec::memory::compact_views::compact_views;
use crate::spec::aggregate::RowOrder;

impl RowGroups {
    /// The states of column `value` for each group: the value, the order columns, and whether the group has a row.
    pub(crate) fn firsts_in_order(
        &self,
        device: &dyn Device,
        batch: &DeviceBatch,
        value: usize,
        order: &RowOrder,
    ) -> Result<Vec<ArrayRef>> {
        let down = |column: usize| device.download(batch.column(column)?);
        let columns = order
            .by
            .iter()
            .map(|(column, options)| {
                Ok(SortColumn {
                    values: down(*column)?,
                    options: Some(*options),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let filter = match order.filter {
            Some(column) => Some(down(column)?.as_boolean().clone()),
            None => None,
        };
        let comparator = LexicographicalComparator::try_new(&columns)?;
        let mut best: Vec<Option<u32>> = vec![None; self.groups()];
        let ids = self.read(device)?;
        for row in 0..batch.rows() {
            if filter
                .as_ref()
                .is_some_and(|f| f.is_null(row) || !f.value(row))
            {
                continue;
            }
            let best = &mut best[ids.as_ref().map_or(0, |ids| ids[row] as usize)];
            let better = best.is_none_or(|known| {
                let compared = comparator.compare(row, known as usize);
                match order.last {
                    true => compared.is_gt(),
                    false => compared.is_lt(),
                }
            });
            if better {
                *best = Some(row as u32);
            }
        }
        let rows = take(&UInt32Array::from(best), self.of_groups(), None)?;
        let rows = rows.as_primitive::<UInt32Type>();
        let of_rows =
            |array: &ArrayRef| -> Result<ArrayRef> { compact_views(take(array, rows, None)?) };
        let mut states = vec![of_rows(&down(value)?)?];
        for column in &columns {
            states.push(of_rows(&column.values)?);
        }
        let is_present: BooleanArray = (0..rows.len())
            .map(|row| Some(rows.is_valid(row)))
            .collect();
        states.push(Arc::new(is_present));
        Ok(states)
    }
}
