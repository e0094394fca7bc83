//! [`DeviceBatch`]: what device nodes hand to one another. Never a `RecordBatch` that hides a device pointer.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use crate::device::{Column, Device};
use crate::error::{BowtieError, Result};

/// Columns of equal length on a device. A column that no one needs there is left out.
#[derive(Debug, Clone)]
pub(crate) struct DeviceBatch {
    rows: usize,
    columns: Vec<Option<Arc<Column>>>,
}

impl DeviceBatch {
    pub(crate) fn new(rows: usize, columns: Vec<Option<Arc<Column>>>) -> Self {
        Self { rows, columns }
    }

    /// Uploads the columns of `batch` for which `needed` says so.
    pub(crate) fn upload(
        device: &dyn Device,
        batch: &RecordBatch,
        needed: impl Fn(usize) -> bool,
    ) -> Result<Self> {
        let columns = batch
            .columns()
            .iter()
            .enumerate()
            .map(|(i, array)| needed(i).then(|| device.upload(array)).transpose())
            .collect::<Result<_>>()?;
        Ok(Self::new(batch.num_rows(), columns))
    }

    /// Downloads all columns.
    pub(crate) fn download(&self, device: &dyn Device, schema: &SchemaRef) -> Result<RecordBatch> {
        let arrays = (0..self.columns.len())
            .map(|i| device.download(self.column(i)?))
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            arrays,
            &options,
        )?)
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that its columns take on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().flatten().map(|c| c.bytes()).sum()
    }

    pub(crate) fn column(&self, index: usize) -> Result<&Arc<Column>> {
        self.columns
            .get(index)
            .and_then(Option::as_ref)
            .ok_or_else(|| BowtieError::Internal(format!("column {index} is not on the device")))
    }
}
