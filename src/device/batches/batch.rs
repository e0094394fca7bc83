//! [`DeviceBatch`]: columns on a device, which device nodes exchange. Never a `RecordBatch` that hides a device
//! pointer.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};

use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::column::Column;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};

/// Columns of equal length on a device. A column that no reader needs is missing.
#[derive(Debug, Clone)]
pub(crate) struct DeviceBatch {
    rows: usize,
    columns: Vec<Option<BatchColumn>>,
}

impl DeviceBatch {
    pub(crate) fn new(rows: usize, columns: Vec<Option<BatchColumn>>) -> Self {
        Self { rows, columns }
    }

    /// A batch of all of these columns.
    pub(crate) fn of<C: Into<BatchColumn>>(
        rows: usize,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        let columns = columns.into_iter().map(|column| Some(column.into()));
        Self::new(rows, columns.collect())
    }

    /// Starts the upload of the needed columns of `rows` rows. `column` returns the parts of a column and the type that
    /// it gets. The batch can be used after [`DeviceBatch::receive`].
    pub(crate) fn upload_async<'a>(
        device: &dyn Device,
        rows: usize,
        needs: impl IntoIterator<Item = &'a Need>,
        column: impl Fn(usize) -> (Vec<ArrayRef>, DataType),
    ) -> Result<Self> {
        let needs = needs.into_iter().enumerate();
        let columns = needs
            .map(|(i, need)| {
                if matches!(need, Need::Never) {
                    return Ok(None);
                }
                let (parts, wanted) = column(i);
                let as_it_is = *parts[0].data_type() == wanted;
                let uploaded = match need {
                    Need::Lazy(payload) if as_it_is && !payload.is_worthwhile() => {
                        device.upload_lazy(&parts, payload)?
                    }
                    _ => device.upload_async(&parts, &wanted)?,
                };
                Ok(Some(uploaded.into()))
            })
            .collect::<Result<_>>()?;
        Ok(Self::new(rows, columns))
    }

    /// The batch with some of its columns, in this order.
    pub(crate) fn select(&self, columns: &[usize]) -> Self {
        let columns = columns
            .iter()
            .map(|i| self.columns.get(*i).cloned().flatten());
        Self::new(self.rows, columns.collect())
    }

    /// The batch with other columns from number `width` on; columns that it lacks before are missing.
    pub(crate) fn with_columns(&self, width: usize, others: Vec<Arc<Column>>) -> Self {
        let mut columns = self.columns.clone();
        columns.resize(width, None);
        columns.extend(others.into_iter().map(|column| Some(column.into())));
        Self::new(self.rows, columns)
    }

    /// Makes the stream of `device` wait for the uploads, so that later work reads the columns.
    pub(crate) fn receive(self, device: &dyn Device) -> Result<Self> {
        for column in self.columns.iter().flatten() {
            device.receive(column.moved())?;
        }
        Ok(self)
    }

    /// Whether a column is in the device's own memory, so that reading the batch waits for the device.
    pub(crate) fn is_resident(&self) -> bool {
        self.columns
            .iter()
            .flatten()
            .any(|c| c.moved().is_resident())
    }

    /// Downloads all columns.
    pub(crate) fn download(&self, device: &dyn Device, schema: &SchemaRef) -> Result<RecordBatch> {
        let arrays = (0..self.columns.len())
            .map(|i| self.any(i)?.download(device))
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

    /// The number of columns, including missing ones.
    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The bytes of its columns on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().flatten().map(|c| c.bytes()).sum()
    }

    /// The values of a column.
    ///
    /// # Errors
    /// An internal one if the column is missing; for want of memory for the values of codes.
    pub(crate) fn column(&self, index: usize) -> Result<&Arc<Column>> {
        self.any(index)?.values()
    }

    /// A column, as values or as codes; an internal error if it is missing.
    pub(crate) fn any(&self, index: usize) -> Result<&BatchColumn> {
        self.columns
            .get(index)
            .and_then(Option::as_ref)
            .ok_or_else(|| BowtieError::Internal(format!("column {index} is not on the device")))
    }
}
