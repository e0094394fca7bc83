//! [`RowGroups`]: the values of each group, in the form that DataFusion's accumulators of MEDIAN and PERCENTILE_CONT
//! merge. In: a batch. Out: a list for each group.
//!
//! ```text
//! group ids of the rows ─► rows sorted by id and value ─► values gathered in that order ─► a list for each group
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, UInt32Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::memory::compact_views::compact_views;

/// The group of each row of a batch.
pub(crate) struct RowGroups {
    /// The group id of each row, and the number of ids; `None` if all rows are one group.
    ids: Option<(Buffer<u32>, u32)>,
    /// The group id of each group of the aggregation.
    of_groups: UInt32Array,
}

impl RowGroups {
    /// The groups of a batch by `keys`, if its groups have the keys `of_groups`.
    pub(crate) fn of(device: &dyn Device, keys: &[&Column], of_groups: &[Column]) -> Result<Self> {
        if keys.is_empty() {
            return Ok(Self {
                ids: None,
                of_groups: UInt32Array::from(vec![0]),
            });
        }
        let (ids, domain) = device.group_keys(keys, true)?;
        let of_groups = device.group_keys_in(&domain, &of_groups.iter().collect::<Vec<_>>())?;
        Ok(Self {
            of_groups: UInt32Array::new(device.read(&of_groups)?, None),
            ids: Some((ids, domain.groups)),
        })
    }

    /// The number of group ids.
    pub(crate) fn groups(&self) -> usize {
        self.ids.as_ref().map_or(1, |(_, groups)| *groups as usize)
    }

    /// The group id of each group of the aggregation.
    pub(crate) fn of_groups(&self) -> &UInt32Array {
        &self.of_groups
    }

    /// The group id of each row; `None` if all rows are in group 0.
    pub(crate) fn read(&self, device: &dyn Device) -> Result<Option<ScalarBuffer<u32>>> {
        let ids = self.ids.as_ref().map(|(ids, _)| device.read(ids));
        ids.transpose()
    }

    /// The state of `aggregate` for each group: the list of its values in `column` that are not NULL.
    pub(crate) fn lists(
        &self,
        device: &dyn Device,
        batch: &DeviceBatch,
        column: usize,
        aggregate: &AggregateFunctionExpr,
    ) -> Result<ArrayRef> {
        let fields = aggregate.state_fields()?;
        let Some(DataType::List(field)) = fields.first().map(|state| state.data_type()) else {
            return Err(BowtieError::Internal("a state that is no list".into()));
        };
        let values = batch.column(column)?;
        let (keys, _) = device.order_keys(values)?;
        let groups = self.ids.as_ref().map(|(ids, groups)| (ids, *groups));
        let sorted = device.sort(batch.rows(), Some(&keys), groups, &[])?;
        drop(keys);
        let length = i32::try_from(sorted.len()).map_err(|_| {
            // The caller retries with half of the rows.
            BowtieError::MustSplit {
                what: "list of values",
                size: sorted.len() as u64,
                most: i32::MAX as u64,
                unit: "values",
            }
        })?;
        let ends = match &sorted.segments {
            Some(ends) => device.read(ends)?.iter().map(|end| *end as i32).collect(),
            None => vec![0, length],
        };
        let values = compact_views(device.download(&device.gather(values, &sorted.rows)?)?)?;
        let lists = ListArray::try_new(
            Arc::clone(field),
            OffsetBuffer::new(ends.into()),
            cast(&values, field.data_type())?,
            None,
        )?;
        Ok(take(&lists, &self.of_groups, None)?)
    }
}
