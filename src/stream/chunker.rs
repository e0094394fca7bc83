//! [`Chunker`]: gathers batches into chunks and evaluates the key expressions on each.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;

use super::StagedChunk;
use crate::spec::Side;

/// How large a chunk may grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkLimits {
    pub rows: usize,
    pub bytes: usize,
}

impl ChunkLimits {
    /// Bytes that a row's keys, ranges and offsets take on the device beside its columns, generously.
    const WORK_BYTES_PER_ROW: u64 = 128;
    /// Rows of a streamed chunk: enough to keep all cores busy, few enough to begin and to cancel soon.
    pub(crate) const STREAMED_ROWS: u64 = 1 << 20;
    /// Arrow's 32-bit offsets hold 2 GiB of characters.
    const MOST_BYTES: u64 = 1 << 30;

    /// Limits for chunks of `side` under a budget of `device_memory` bytes. The left side is gathered whole, the right
    /// side is streamed; each may use a share of the budget for its columns and one for its work.
    pub(crate) fn new(device_memory: u64, chunk_rows: Option<usize>, side: Side) -> Self {
        let by_memory = device_memory / 4 / Self::WORK_BYTES_PER_ROW;
        let rows = match side {
            Side::Left => by_memory,
            Side::Right => by_memory.min(Self::STREAMED_ROWS),
        };
        let rows = (rows as usize).clamp(1, crate::device::MAX_CHUNK_ROWS);
        Self {
            rows: chunk_rows.map_or(rows, |limit| limit.min(rows)),
            bytes: (device_memory / 8).min(Self::MOST_BYTES) as usize,
        }
    }
}

/// Gathers batches into chunks. Everything it holds is reserved in DataFusion's memory pool.
#[derive(Debug)]
pub(crate) struct Chunker {
    schema: SchemaRef,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    limits: ChunkLimits,
    pool: Arc<dyn MemoryPool>,
    name: String,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    reservation: MemoryReservation,
}

impl Chunker {
    /// `schema` is that of the chunks: the batches' columns, then one for each of `expressions`.
    pub(crate) fn new(
        name: String,
        schema: SchemaRef,
        expressions: Vec<Arc<dyn PhysicalExpr>>,
        limits: ChunkLimits,
        pool: &Arc<dyn MemoryPool>,
    ) -> Self {
        Self {
            schema,
            expressions,
            limits,
            reservation: MemoryConsumer::new(name.clone()).register(pool),
            pool: Arc::clone(pool),
            name,
            waiting: vec![],
            waiting_rows: 0,
            waiting_bytes: 0,
        }
    }

    /// Takes a batch; returns the chunks that are full with it.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<Vec<StagedChunk>> {
        let mut full = vec![];
        let mut from = 0;
        let row_bytes = batch_bytes(batch) / batch.num_rows().max(1);
        while from < batch.num_rows() {
            let room = self.limits.rows - self.waiting_rows;
            let rows_of_bytes =
                self.limits.bytes.saturating_sub(self.waiting_bytes) / row_bytes.max(1);
            // One row is always taken, however wide.
            let least = usize::from(self.waiting_rows == 0);
            let rows = room
                .min(rows_of_bytes.max(least))
                .min(batch.num_rows() - from);
            if rows > 0 {
                let bytes = rows * row_bytes;
                self.reservation.try_grow(bytes)?;
                self.waiting.push(batch.slice(from, rows));
                self.waiting_rows += rows;
                self.waiting_bytes += bytes;
                from += rows;
            }
            if rows == 0 || self.waiting_rows == self.limits.rows {
                full.extend(self.flush()?);
            }
        }
        Ok(full)
    }

    /// What is waiting, as a last chunk, or as several when their dictionaries together have more values than their keys
    /// can tell apart.
    pub(crate) fn flush(&mut self) -> Result<Vec<StagedChunk>> {
        if self.waiting_rows == 0 {
            return Ok(vec![]);
        }
        let batches = std::mem::take(&mut self.waiting);
        self.waiting_rows = 0;
        let waiting_bytes = std::mem::take(&mut self.waiting_bytes);
        let copies = self.together(batches)?;
        self.reservation.shrink(waiting_bytes);
        copies
            .into_iter()
            .map(|(batch, reservation)| self.stage(batch, reservation))
            .collect()
    }

    /// One copy of all batches; two of each half when they cannot be copied together.
    fn together(
        &self,
        mut batches: Vec<RecordBatch>,
    ) -> Result<Vec<(RecordBatch, MemoryReservation)>> {
        let reservation = MemoryConsumer::new(self.name.clone()).register(&self.pool);
        reservation.try_grow(batches.iter().map(batch_bytes).sum())?;
        if batches.len() > 1 {
            let copied = match may_overflow_inside(&batches) {
                true => Err(ArrowError::DictionaryKeyOverflowError),
                false => concat_batches(&batches[0].schema(), &batches),
            };
            match copied {
                Ok(batch) => batches = vec![batch],
                Err(ArrowError::DictionaryKeyOverflowError) => {
                    drop(reservation);
                    let second = batches.split_off(batches.len() / 2);
                    let mut copies = self.together(batches)?;
                    copies.extend(self.together(second)?);
                    return Ok(copies);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(batches
            .pop()
            .map(|batch| (batch, reservation))
            .into_iter()
            .collect())
    }

    /// Evaluates the key expressions on a chunk's rows.
    fn stage(&self, batch: RecordBatch, reservation: MemoryReservation) -> Result<StagedChunk> {
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        let mut failures = vec![];
        for (i, expression) in self.expressions.iter().enumerate() {
            let evaluated = expression
                .evaluate(&batch)
                .and_then(|value| value.into_array(rows));
            let array: ArrayRef = match evaluated {
                Ok(array) => array,
                Err(error) => {
                    let column = batch.num_columns() + i;
                    failures.push((column, Arc::new(error)));
                    new_null_array(self.schema.field(column).data_type(), rows)
                }
            };
            reservation.try_grow(array_bytes(&array))?;
            columns.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(StagedChunk {
            batch: RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?,
            failures,
            reservation: Arc::new(reservation),
        })
    }
}

/// Whether copying the batches together might overflow the keys of a dictionary where Arrow does not return an error: inside
/// of other types, or with views as values.
fn may_overflow_inside(batches: &[RecordBatch]) -> bool {
    let fields = batches[0].schema_ref().fields();
    fields.iter().any(|field| match field.data_type() {
        DataType::Dictionary(key, values) => {
            key.primitive_width().is_some_and(|width| width < 4)
                && matches!(**values, DataType::Utf8View | DataType::BinaryView)
        }
        other => has_small_dictionary(other),
    })
}

/// Whether a type holds dictionaries whose keys have fewer than 32 bits, or what may be such.
pub(crate) fn has_small_dictionary(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(key, _) => key.primitive_width().is_none_or(|width| width < 4),
        RunEndEncoded(_, values) => has_small_dictionary(values.data_type()),
        Union(fields, _) => fields
            .iter()
            .any(|(_, field)| has_small_dictionary(field.data_type())),
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _)
        | Map(field, _) => has_small_dictionary(field.data_type()),
        Struct(fields) => fields
            .iter()
            .any(|field| has_small_dictionary(field.data_type())),
        _ => false,
    }
}

/// Bytes of the rows of a batch, whatever larger buffers they are slices of.
fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(array_bytes).sum()
}

fn array_bytes(array: &ArrayRef) -> usize {
    array
        .to_data()
        .get_slice_memory_size()
        .unwrap_or_else(|_| array.get_array_memory_size())
}
