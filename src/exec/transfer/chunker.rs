//! [`Chunker`]: gathers evaluated batches into staged chunks, reserved in DataFusion's memory pool.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use crate::device::primitives::device::Device;
use crate::exec::chunk::DeviceChunk;
use crate::exec::chunk::chunk_limits::ChunkLimits;
use crate::exec::chunk::sizes::{batch_bytes, elements_of};
use crate::exec::chunk::staged_chunk::{StagedChunk, StagedColumn, together};
use crate::exec::transfer::evaluator::{Evaluated, Evaluator, Layout, Place};

/// Gathers batches into chunks. All rows that it holds are reserved in DataFusion's memory pool.
#[derive(Debug)]
pub(crate) struct Chunker {
    limits: ChunkLimits,
    pool: Arc<dyn MemoryPool>,
    name: String,
    waiting: Waiting,
    reservation: MemoryReservation,
    /// The source of each column of a chunk.
    layout: Layout,
    /// Whether the batches of a chunk are concatenated at once, since that may fail for dictionaries with small keys.
    together: bool,
    /// For each column of a batch, whether its upload copies it anyway.
    in_parts: Vec<bool>,
    /// Whether the reader gets a signal when the pool refuses more rows.
    told: bool,
    /// The current batch and its first row that was not gathered yet.
    rest: Option<(Evaluated, usize)>,
    /// Whether the pool has refused all rows since the last signal.
    memory_pressure: bool,
}

/// The batches of the next chunk.
#[derive(Debug, Default)]
struct Waiting {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    /// The elements of the longest list column, or more.
    elements: usize,
    failures: Vec<(usize, Arc<DataFusionError>)>,
}

impl Chunker {
    pub(crate) fn new(
        name: String,
        evaluator: &Evaluator,
        device: &dyn Device,
        limits: ChunkLimits,
        pool: &Arc<dyn MemoryPool>,
    ) -> Self {
        let fields = evaluator.schema().fields();
        Self {
            limits,
            reservation: MemoryConsumer::new(name.clone()).register(pool),
            pool: Arc::clone(pool),
            name,
            waiting: Waiting::default(),
            layout: evaluator.layout(),
            together: fields
                .iter()
                .any(|field| has_small_dictionary(field.data_type())),
            in_parts: fields
                .iter()
                .map(|field| device.copies_uploads(field.data_type()))
                .collect(),
            told: false,
            rest: None,
            memory_pressure: false,
        }
    }

    /// For a reader that frees memory, such as by spilling its chunks, when it is told of memory pressure.
    pub(crate) fn told_of_memory_pressure(self, told: bool) -> Self {
        Self { told, ..self }
    }

    /// Whether rows of the last batch wait for memory.
    pub(crate) fn has_rest(&self) -> bool {
        self.rest.is_some()
    }

    /// Adds a batch and returns the chunks that became full.
    pub(crate) fn push(&mut self, evaluated: Evaluated) -> Result<Vec<DeviceChunk>> {
        self.take(evaluated, 0)
    }

    /// Adds the rest of the last batch.
    pub(crate) fn push_rest(&mut self) -> Result<Vec<DeviceChunk>> {
        match self.rest.take() {
            Some((evaluated, from)) => self.take(evaluated, from),
            None => Ok(vec![]),
        }
    }

    /// Adds the rows of a batch from row `from` on.
    fn take(&mut self, evaluated: Evaluated, from: usize) -> Result<Vec<DeviceChunk>> {
        let Evaluated { batch, failures } = evaluated;
        let mut full = vec![];
        let mut from = from;
        let row_bytes = batch_bytes(&batch) / batch.num_rows().max(1);
        while from < batch.num_rows() {
            let waiting = &mut self.waiting;
            let missing = self.limits.rows - waiting.rows;
            let rows_of_bytes = self.limits.bytes.saturating_sub(waiting.bytes) / row_bytes.max(1);
            // At least one row is added, however wide it is.
            let least = usize::from(waiting.rows == 0);
            let rows = missing
                .min(rows_of_bytes.max(least))
                .min(batch.num_rows() - from);
            if rows > 0 {
                let part = match rows == batch.num_rows() {
                    true => batch.clone(),
                    false => batch.slice(from, rows),
                };
                let elements = part.columns().iter().map(elements_of);
                let elements = elements.max().unwrap_or(0);
                if waiting.rows > 0 && waiting.elements + elements > ChunkLimits::MOST_ELEMENTS {
                    full.extend(self.flush()?);
                    continue;
                }
                let bytes = rows * row_bytes;
                if let Err(error) = self.reservation.try_grow(bytes) {
                    if !self.told || self.memory_pressure {
                        return Err(error);
                    }
                    self.memory_pressure = true;
                    full.extend(self.flush()?);
                    full.push(DeviceChunk::MemoryPressure);
                    self.rest = Some((Evaluated { batch, failures }, from));
                    return Ok(full);
                }
                self.memory_pressure = false;
                waiting.batches.push(part);
                waiting.rows += rows;
                waiting.bytes += bytes;
                waiting.elements += elements;
                for (column, error) in &failures {
                    if waiting.failures.iter().all(|(known, _)| known != column) {
                        waiting.failures.push((*column, Arc::clone(error)));
                    }
                }
                from += rows;
            }
            if rows == 0 || self.waiting.rows == self.limits.rows {
                full.extend(self.flush()?);
                // The reader may have to free memory for the remaining rows.
                if self.told && from < batch.num_rows() {
                    self.rest = Some((Evaluated { batch, failures }, from));
                    return Ok(full);
                }
            }
        }
        Ok(full)
    }

    /// Makes a chunk of the waiting rows. It makes several if the values of their dictionaries would overflow the keys.
    pub(crate) fn flush(&mut self) -> Result<Vec<DeviceChunk>> {
        let chunks = self.staged_chunks()?.into_iter();
        Ok(chunks.map(DeviceChunk::Staged).collect())
    }

    fn staged_chunks(&mut self) -> Result<Vec<StagedChunk>> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.rows == 0 {
            return Ok(vec![]);
        }
        // Chunks do not grow after memory was short.
        if waiting.bytes < ChunkLimits::FULL_BUS_BYTES && !self.memory_pressure {
            self.limits.rows = (2 * self.limits.rows).min(self.limits.most_rows);
        }
        if !self.together {
            let mut columns = Vec::with_capacity(self.in_parts.len());
            for (i, in_parts) in self.in_parts.iter().enumerate() {
                let batches = waiting.batches.iter();
                let parts: Vec<ArrayRef> =
                    batches.map(|batch| Arc::clone(batch.column(i))).collect();
                columns.push(match in_parts {
                    true => parts,
                    false => vec![together(&parts)?],
                });
            }
            let columns = self.staged(columns);
            let reservation = self.reservation.split(waiting.bytes);
            let chunk = StagedChunk::new(waiting.rows, columns, waiting.failures, reservation);
            return Ok(vec![chunk]);
        }
        let copies = self.copy_together(waiting.batches)?;
        self.reservation.shrink(waiting.bytes);
        Ok(copies
            .into_iter()
            .map(|(batch, reservation)| {
                let columns = batch.columns().iter();
                let columns = columns.map(|array| vec![Arc::clone(array)]).collect();
                StagedChunk::new(
                    batch.num_rows(),
                    self.staged(columns),
                    waiting.failures.clone(),
                    reservation,
                )
            })
            .collect())
    }

    /// The columns of a chunk, of the parts of the stored ones.
    fn staged(&self, columns: Vec<Vec<ArrayRef>>) -> Vec<StagedColumn> {
        let mut columns = columns.into_iter();
        self.layout
            .iter()
            .filter_map(|place| match place {
                Place::Batch => columns.next().map(StagedColumn::of),
                Place::Widened { from, to } => Some(StagedColumn::Widened {
                    from: *from,
                    to: to.clone(),
                }),
            })
            .collect()
    }

    /// A single copy of all batches, or copies of both halves if their dictionary keys would overflow.
    fn copy_together(
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
                    let mut copies = self.copy_together(batches)?;
                    copies.extend(self.copy_together(second)?);
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
}

/// Whether concatenating the batches might overflow the keys of a dictionary in cases in which Arrow returns no error:
/// within other types, or with views as values.
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

/// Whether a type has dictionaries, at any depth, whose keys have fewer than 32 bits. Keys of unknown width count.
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

#[cfg(test)]
mod tests {
    use arrow::array::NullArray;
    use arrow::datatypes::{Field, Schema};
    use datafusion::execution::memory_pool::UnboundedMemoryPool;

    use super::*;
    use crate::exec::chunk::sizes::tests::list;

    fn chunker(pool: &Arc<dyn MemoryPool>, rows: usize, most_rows: usize) -> Chunker {
        Chunker {
            limits: ChunkLimits {
                rows,
                most_rows,
                bytes: 1 << 20,
            },
            reservation: MemoryConsumer::new("test").register(pool),
            pool: Arc::clone(pool),
            name: "test".into(),
            waiting: Waiting::default(),
            layout: vec![Place::Batch].into(),
            together: false,
            in_parts: vec![false],
            told: false,
            rest: None,
            memory_pressure: false,
        }
    }

    /// Each chunk of a streamed side has twice as many rows as the one before, up to the limit.
    #[test]
    fn chunks_of_a_streamed_side_grow() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let field = Field::new("n", DataType::Null, true);
        let schema = Arc::new(Schema::new(vec![field]));
        let columns: Vec<ArrayRef> = vec![Arc::new(NullArray::new(30))];
        let batch = RecordBatch::try_new(schema, columns).unwrap();
        let mut chunker = chunker(&pool, 10, 35);
        let mut rows = vec![];
        for _ in 0..5 {
            let failures = vec![];
            let batch = batch.clone();
            let chunks = chunker.push(Evaluated { batch, failures }).unwrap();
            rows.extend(chunks.iter().map(|chunk| chunk.rows()));
        }
        rows.extend(chunker.flush().unwrap().iter().map(|chunk| chunk.rows()));
        assert_eq!(rows, [10, 20, 35, 35, 35, 15]);
    }

    /// Elements take no bytes here, so only their number ends a chunk.
    #[test]
    fn a_chunk_has_no_more_elements_than_offsets_count() {
        const MANY: usize = 1_500_000_000;
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        for levels in [1, 2] {
            let mut lists = list(Arc::new(NullArray::new(MANY)), [MANY]);
            for _ in 1..levels {
                lists = list(lists, [1]);
            }
            let field = Field::new("lists", lists.data_type().clone(), true);
            let schema = Arc::new(Schema::new(vec![field]));
            let batch = RecordBatch::try_new(schema, vec![lists]).unwrap();
            let mut chunker = chunker(&pool, 1_000, 1_000);
            let mut chunks = vec![];
            for _ in 0..3 {
                let failures = vec![];
                let batch = batch.clone();
                chunks.extend(chunker.push(Evaluated { batch, failures }).unwrap());
            }
            chunks.extend(chunker.flush().unwrap());
            assert_eq!(chunks.len(), 3);
        }
    }
}
