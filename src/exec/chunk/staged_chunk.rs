//! [`StagedChunk`]: rows on the host, from an upload to the node that uploads them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;

use crate::device::batches::batch::DeviceBatch;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::device::row_width::mean_bytes;
use crate::error::{BowtieError, Result};

/// The arrays of a column, in row order; at least one.
pub(crate) type Parts = Arc<[ArrayRef]>;

/// Evaluated columns whose expression failed on some row, with the error. Such a column is NULL in the rows of that
/// batch.
pub(crate) type Failures = [(usize, Arc<DataFusionError>)];

/// A chunk on the host, reserved in DataFusion's memory pool until it is dropped.
///
/// Columns that are copied by their upload stay in the parts in which they came. The upload concatenates them, and only
/// if they are needed on the device.
#[derive(Debug)]
pub(crate) struct StagedChunk {
    rows: usize,
    /// The columns of the plan below, then those of the expressions.
    columns: Vec<StagedColumn>,
    /// Evaluated columns whose expression failed on some row, with the error. Such a column is NULL in the rows of that
    /// batch.
    pub(crate) failures: Vec<(usize, Arc<DataFusionError>)>,
    pub(crate) reservation: Arc<MemoryReservation>,
    /// The number of the hash partition of the rows (`exec/partition/partitioner.rs`); 0 without partitions.
    pub(crate) partition: u32,
    /// The needed columns on the device, if they were prefetched (the copy may still run).
    prefetched: Mutex<Option<DeviceBatch>>,
}

/// For each column: the source column and the target type if it is a cast, `None` if it is stored as arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkShape(Vec<Option<(usize, DataType)>>);

impl ChunkShape {
    /// The shape of `columns` stored columns.
    pub(crate) fn of_arrays(columns: usize) -> Self {
        Self(vec![None; columns])
    }

    pub(crate) fn columns(&self) -> usize {
        self.0.len()
    }

    /// Mean bytes of a value of each column, given those of the stored columns.
    pub(crate) fn mean_bytes(&self, arrays: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut arrays = arrays;
        let columns = self.0.iter();
        let of = columns.map(|widened| match widened {
            None => arrays.next().unwrap_or(0),
            Some((_, to)) => width_of(to),
        });
        of.collect()
    }
}

/// Bytes of a value of type `to`.
fn width_of(to: &DataType) -> u64 {
    to.primitive_width().unwrap_or(8) as u64
}

/// A column of a staged chunk: stored as arrays, or a cast.
#[derive(Debug)]
pub(crate) enum StagedColumn {
    Arrays(Mutex<Parts>),
    /// A cast of another column, which the device computes in the upload.
    Widened {
        from: usize,
        to: DataType,
    },
}

impl StagedColumn {
    pub(crate) fn of(parts: Vec<ArrayRef>) -> Self {
        Self::Arrays(Mutex::new(parts.into()))
    }
}

impl StagedChunk {
    /// A chunk of `rows` rows with these columns.
    pub(crate) fn new(
        rows: usize,
        columns: Vec<StagedColumn>,
        failures: Vec<(usize, Arc<DataFusionError>)>,
        reservation: MemoryReservation,
    ) -> Self {
        Self {
            rows,
            columns,
            failures,
            reservation: Arc::new(reservation),
            partition: 0,
            prefetched: Mutex::new(None),
        }
    }

    /// The chunk as a chunk of hash partition `partition`.
    pub(crate) fn of_partition(self, partition: u32) -> Self {
        Self { partition, ..self }
    }

    pub(crate) fn shape(&self) -> ChunkShape {
        let columns = self.columns.iter().map(|column| match column {
            StagedColumn::Arrays(_) => None,
            StagedColumn::Widened { from, to } => Some((*from, to.clone())),
        });
        ChunkShape(columns.collect())
    }

    /// Some rows of the stored columns.
    pub(crate) fn stored(&self, shape: &ChunkShape, rows: Range<usize>) -> Result<Vec<ArrayRef>> {
        let arrays = (0..self.columns()).filter(|column| shape.0[*column].is_none());
        arrays
            .map(|column| together(&self.parts_of(column, &rows)))
            .collect()
    }

    /// The inverse of [`Self::stored`]: a chunk of the parts of its stored columns.
    pub(crate) fn restored(
        shape: &ChunkShape,
        rows: usize,
        columns: Vec<Vec<ArrayRef>>,
        failures: Vec<(usize, Arc<DataFusionError>)>,
        reservation: MemoryReservation,
    ) -> Self {
        let mut arrays = columns.into_iter();
        let columns = shape.0.iter().filter_map(|widened| match widened {
            None => arrays.next().map(StagedColumn::of),
            Some((from, to)) => Some(StagedColumn::Widened {
                from: *from,
                to: to.clone(),
            }),
        });
        Self::new(rows, columns.collect(), failures, reservation)
    }

    /// A chunk of the rows of a batch.
    pub(crate) fn of(batch: &RecordBatch, reservation: MemoryReservation) -> Self {
        let columns = batch.columns().iter();
        let columns = columns.map(|array| StagedColumn::of(vec![Arc::clone(array)]));
        Self::new(batch.num_rows(), columns.collect(), vec![], reservation)
    }

    /// A chunk of `rows` rows, with the parts of each column.
    pub(crate) fn of_parts(
        rows: usize,
        columns: Vec<Vec<ArrayRef>>,
        reservation: Arc<MemoryReservation>,
    ) -> Self {
        Self {
            rows,
            columns: columns.into_iter().map(StagedColumn::of).collect(),
            failures: vec![],
            reservation,
            partition: 0,
            prefetched: Mutex::new(None),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The parts of a column; of a cast, the parts of its source column.
    pub(crate) fn parts(&self, column: usize) -> Parts {
        match &self.columns[column] {
            StagedColumn::Arrays(parts) => Arc::clone(&parts.lock()),
            StagedColumn::Widened { from, .. } => self.parts(*from),
        }
    }

    fn data_type(&self, column: usize) -> DataType {
        match &self.columns[column] {
            StagedColumn::Arrays(parts) => parts.lock()[0].data_type().clone(),
            StagedColumn::Widened { to, .. } => to.clone(),
        }
    }

    /// The parts of rows `rows` of a column; a single empty one if there are no rows.
    fn parts_of(&self, column: usize, rows: &Range<usize>) -> Vec<ArrayRef> {
        let all = self.parts(column);
        let mut parts = vec![];
        let mut first = 0;
        for part in all.iter() {
            let begin = rows.start.clamp(first, first + part.len()) - first;
            let end = rows.end.clamp(first, first + part.len()) - first;
            if (begin, end) == (0, part.len()) && end > 0 {
                parts.push(Arc::clone(part));
            } else if begin < end {
                parts.push(part.slice(begin, end - begin));
            }
            first += part.len();
        }
        if parts.is_empty() {
            parts.push(new_empty_array(all[0].data_type()));
        }
        parts
    }

    /// The same rows in chunks of at most `most` rows, which share the reservation. A chunk with evaluation failures is
    /// not cut.
    pub(crate) fn cut(self, most: usize) -> Result<Vec<Self>> {
        if self.rows <= most || !self.failures.is_empty() {
            return Ok(vec![self]);
        }
        let begins = (0..self.rows).step_by(most.max(1));
        begins
            .map(|begin| self.some(&(begin..(begin + most.max(1)).min(self.rows))))
            .collect()
    }

    /// Some rows, which keep the reservation of all.
    ///
    /// # Errors
    /// If an expression failed on some row of the chunk.
    pub(crate) fn slice(self, rows: Range<usize>) -> Result<Self> {
        match self.failures.first() {
            Some((_, error)) => Err(BowtieError::DataFusion(Arc::clone(error))),
            None => self.some(&rows),
        }
    }

    fn some(&self, rows: &Range<usize>) -> Result<Self> {
        let parts = |column: usize| match &self.columns[column] {
            StagedColumn::Arrays(_) => Ok(self.parts_of(column, rows)),
            StagedColumn::Widened { .. } => {
                Ok(vec![self.whole(column)?.slice(rows.start, rows.len())])
            }
        };
        let columns = (0..self.columns()).map(parts).collect::<Result<_>>()?;
        let reservation = Arc::clone(&self.reservation);
        Ok(Self::of_parts(rows.len(), columns, reservation))
    }

    /// A chunk of some columns, in this order.
    pub(crate) fn select(&self, columns: &[usize]) -> Result<Self> {
        let parts = |column: &usize| match &self.columns[*column] {
            StagedColumn::Arrays(parts) => Ok(parts.lock().to_vec()),
            StagedColumn::Widened { .. } => Ok(vec![self.whole(*column)?]),
        };
        let parts = columns.iter().map(parts).collect::<Result<_>>()?;
        let reservation = Arc::clone(&self.reservation);
        Ok(Self::of_parts(self.rows, parts, reservation))
    }

    /// Begins the upload of all rows, according to `needs`, for [`Self::take_prefetched`]. Returns its bytes.
    pub(crate) fn prefetch(&self, device: &dyn Device, needs: &[Need]) -> Result<u64> {
        let batch = self.upload_async(device, &(0..self.rows), needs)?;
        let bytes = batch.bytes();
        *self.prefetched.lock() = Some(batch);
        Ok(bytes)
    }

    /// The prefetched columns, if there are any. The chunk does not keep them.
    pub(crate) fn take_prefetched(&self, device: &dyn Device) -> Result<Option<DeviceBatch>> {
        let prefetched = self.prefetched.lock().take();
        prefetched.map(|batch| batch.receive(device)).transpose()
    }

    /// Uploads rows `rows` of the columns, according to `needs`.
    pub(crate) fn upload(
        &self,
        device: &dyn Device,
        rows: &Range<usize>,
        needs: &[Need],
    ) -> Result<DeviceBatch> {
        self.upload_async(device, rows, needs)?.receive(device)
    }

    /// Begins the upload for later work. The batch can be used after it was received.
    fn upload_async(
        &self,
        device: &dyn Device,
        rows: &Range<usize>,
        needs: &[Need],
    ) -> Result<DeviceBatch> {
        let column = |i| (self.parts_of(i, rows), self.data_type(i));
        DeviceBatch::upload_async(device, rows.len(), needs, column)
    }

    /// A column as one array, which replaces its parts.
    pub(crate) fn whole(&self, column: usize) -> Result<ArrayRef> {
        let staged = self
            .columns
            .get(column)
            .ok_or_else(|| BowtieError::Internal(format!("a chunk without column {column}")))?;
        let mut parts = match staged {
            StagedColumn::Arrays(parts) => parts.lock(),
            StagedColumn::Widened { from, to } => return Ok(cast(&self.whole(*from)?, to)?),
        };
        let array = together(&parts)?;
        if parts.len() > 1 {
            *parts = Arc::new([Arc::clone(&array)]);
        }
        Ok(array)
    }

    /// All rows as a batch.
    pub(crate) fn batch(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let arrays = (0..self.columns()).map(|i| self.whole(i));
        let arrays = arrays.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let schema = Arc::clone(schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// Mean bytes of a value of a column.
    pub(crate) fn mean_bytes(&self, column: usize) -> Result<u64> {
        if let StagedColumn::Widened { to, .. } = &self.columns[column] {
            return Ok(width_of(to));
        }
        let mut bytes = 0;
        for part in self.parts(column).iter() {
            bytes += mean_bytes(part)? * part.len() as u64;
        }
        Ok(bytes.div_ceil(self.rows.max(1) as u64))
    }
}

/// The concatenation of all parts. A single part is not copied.
pub(crate) fn together(parts: &[ArrayRef]) -> Result<ArrayRef> {
    match parts {
        [part] => Ok(Arc::clone(part)),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok(concat(&parts)?)
        }
    }
}
