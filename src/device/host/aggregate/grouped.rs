//! [`Grouped`]: what every strategy returns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::error::Result;
use crate::ir::strategies::GroupStrategy;

/// Groups, each identified by one of its rows.
#[derive(Debug)]
pub(super) struct Grouped {
    /// One row of each group. Without keys: one group, if there are rows.
    pub(super) firsts: Buffer<u32>,
    pub(super) states: Vec<Column>,
    pub(super) strategy: Option<GroupStrategy>,
}

/// The states of `folds` folds for the groups of all parts.
pub(super) fn concatenated(
    budget: &Arc<Budget>,
    mut parts: Vec<Vec<Column>>,
    folds: usize,
) -> Result<Vec<Column>> {
    if parts.len() == 1 {
        return Ok(parts.remove(0));
    }
    let states = (0..folds).map(|fold| {
        let states = parts.iter().map(|part| Ok(part[fold].on_host()?.as_ref()));
        let array: ArrayRef = concat(&states.collect::<Result<Vec<&dyn Array>>>()?)?;
        let lease = budget.lease(array.get_array_memory_size() as u64, "aggregates")?;
        Ok(Column::host(array, lease))
    });
    states.collect()
}
