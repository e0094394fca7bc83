//! [`DistinctValues`]: the distinct values of each group, in the form that DataFusion's accumulators of DISTINCT
//! aggregates merge. In: a batch. Out: a list for each group.
//!
//! ```text
//! group by keys and value ─► tuples ─► the group of each tuple, by its keys ─► a list for each group
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, UInt32Array, make_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::memory::compact_views::compact_views;
use crate::ir::strategies::Grouping;

/// The distinct tuples of group keys and a value.
pub(crate) struct DistinctValues {
    /// The value of each tuple.
    values: ArrayRef,
    /// The group of each tuple.
    groups: Vec<u32>,
}

impl DistinctValues {
    /// The distinct values of `column` in a batch that has `groups` groups by `keys`, with the keys `of_groups`.
    pub(crate) fn of(
        device: &dyn Device,
        batch: &DeviceBatch,
        keys: &[&Column],
        column: usize,
        (of_groups, groups): (&[Column], usize),
    ) -> Result<Self> {
        let value = batch.column(column)?;
        let with_value: Vec<&Column> = keys.iter().copied().chain([value.as_ref()]).collect();
        let tuples = device.aggregate(batch.rows(), &with_value, &[], Grouping::AUTO)?;
        let (of_tuples, values) = tuples.keys.split_at(keys.len());
        let [values] = values else {
            return Err(BowtieError::Internal("tuples without a value".into()));
        };
        let values = compact_views(device.download(values)?)?;
        if keys.is_empty() {
            let groups = vec![0; tuples.groups];
            return Ok(Self { values, groups });
        }
        let (ids, domain) = device.group_keys(&of_groups.iter().collect::<Vec<_>>(), true)?;
        let found = device.group_keys_in(&domain, &of_tuples.iter().collect::<Vec<_>>())?;
        let mut group_of = vec![0; groups];
        for (group, id) in device.read(&ids)?.iter().enumerate() {
            group_of[*id as usize] = group as u32;
        }
        let groups = device
            .read(&found)?
            .iter()
            .map(|id| group_of.get(*id as usize).copied())
            .collect::<Option<_>>()
            .ok_or_else(|| BowtieError::Internal("a tuple in no group".into()))?;
        Ok(Self { values, groups })
    }

    /// The state of `aggregate` for each of `groups` groups: the list of its values that are not NULL.
    pub(crate) fn lists(
        &self,
        aggregate: &AggregateFunctionExpr,
        groups: usize,
    ) -> Result<ArrayRef> {
        let fields = aggregate.state_fields()?;
        let Some(DataType::List(field)) = fields.first().map(|state| state.data_type()) else {
            return Err(BowtieError::Internal("a state that is no list".into()));
        };
        if i32::try_from(self.groups.len()).is_err() {
            // The caller retries with half of the rows.
            return Err(BowtieError::MustSplit {
                what: "list of distinct values",
                size: self.groups.len() as u64,
                most: i32::MAX as u64,
                unit: "values",
            });
        }
        // The start of each group's list, by counting.
        let mut ends = vec![0i32; groups + 1];
        let valid = |tuple: &usize| self.values.is_valid(*tuple);
        for tuple in (0..self.groups.len()).filter(valid) {
            ends[self.groups[tuple] as usize + 1] += 1;
        }
        for group in 0..groups {
            ends[group + 1] += ends[group];
        }
        let mut next = ends.clone();
        let mut order = vec![0; ends[groups] as usize];
        for tuple in (0..self.groups.len()).filter(valid) {
            let at = &mut next[self.groups[tuple] as usize];
            order[*at as usize] = tuple as u32;
            *at += 1;
        }
        let values = take(&self.values, &UInt32Array::from(order), None)?;
        let values = match field.data_type().is_floating() {
            // Distinct floats are compared by their bits.
            true => same_bits(&values, field.data_type())?,
            false => cast(&values, field.data_type())?,
        };
        let offsets = OffsetBuffer::new(ends.into());
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(field),
            offsets,
            values,
            None,
        )?))
    }
}

/// The same bits as values of another type of the same width.
pub(crate) fn same_bits(values: &ArrayRef, data_type: &DataType) -> DataFusionResult<ArrayRef> {
    let of_type = values.to_data().into_builder().data_type(data_type.clone());
    Ok(make_array(of_type.build()?))
}
