//! The residual filter: the part of a join condition that is not compiled. DataFusion's own expressions evaluate it on
//! candidate pairs, on the host.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::common::JoinSide;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::device::batches::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::ops::probe::RowPairs;

/// Whether each pair satisfies `filter`; NULL counts as false.
pub(crate) fn evaluate(
    device: &dyn Device,
    filter: &JoinFilter,
    left: &DeviceBatch,
    right: &DeviceBatch,
    pairs: &RowPairs,
) -> Result<BooleanArray> {
    let values = values(device, filter, left, right, pairs)?;
    Ok(as_boolean_array(&values)?.clone())
}

/// The expression of `filter` for each pair. Gathers and downloads the columns that it reads.
pub(crate) fn values(
    device: &dyn Device,
    filter: &JoinFilter,
    left: &DeviceBatch,
    right: &DeviceBatch,
    pairs: &RowPairs,
) -> Result<ArrayRef> {
    let columns = filter
        .column_indices()
        .iter()
        .map(|column| {
            let gathered = match column.side {
                JoinSide::Left => left.any(column.index)?.gather(device, &pairs.left),
                JoinSide::Right => right.any(column.index)?.gather(device, &pairs.right),
                JoinSide::None => Err(BowtieError::Internal("a filter column of no side".into())),
            }?;
            gathered.download(device)
        })
        .collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(pairs.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(filter.schema()), columns, &options)?;
    let values = filter.expression().evaluate(&batch)?;
    Ok(values.into_array(pairs.len())?)
}
