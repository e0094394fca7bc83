//! [`SpilledChunk`]: a chunk in a file, which is read when it is needed, such as in a join's walk over tiles.
//! [`ChunkWriter`] writes it.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::spill_file::SpillFile;
use parking_lot::Mutex;

use crate::error::Result;
use crate::exec::chunk::sizes::{array_bytes, batch_bytes};
use crate::exec::chunk::staged_chunk::{ChunkShape, Failures, StagedChunk};
use crate::exec::memory::spill::{SpillWriter, Spilling, spilled_rows};

/// A chunk in a file. Its rows are also in memory while they are used.
pub(crate) struct SpilledChunk {
    rows: usize,
    schema: SchemaRef,
    file: Arc<dyn SpillFile>,
    shape: ChunkShape,
    failures: Vec<(usize, Arc<DataFusionError>)>,
    /// The number of its hash partition.
    partition: u32,
    /// Mean bytes of a value of each column.
    mean_bytes: Vec<u64>,
    /// Bytes of all rows.
    bytes: usize,
    spilling: Spilling,
    /// An empty reservation of the chunk's consumer, from which those of loaded rows are made.
    reservation: Arc<MemoryReservation>,
    loaded: Mutex<Option<Loaded>>,
}

/// The rows in memory: all of them, or only some if the memory pool refused more.
#[derive(Clone)]
struct Loaded {
    rows: Range<usize>,
    chunk: Arc<StagedChunk>,
}

/// The file of a chunk while it is written.
pub(crate) struct ChunkWriter {
    schema: SchemaRef,
    shape: ChunkShape,
    writer: SpillWriter,
    rows: usize,
    /// Bytes so far of each column of the file. The shape tells which of the chunk's columns these are.
    bytes: Vec<usize>,
    spilling: Spilling,
}

impl ChunkWriter {
    /// A file for columns of these types; `None` without columns, as there is nothing to write.
    pub(crate) fn create(
        types: impl Iterator<Item = DataType>,
        spilling: &Spilling,
    ) -> Result<Option<Self>> {
        let types: Vec<DataType> = types.collect();
        let shape = ChunkShape::of_arrays(types.len());
        match types.is_empty() {
            true => Ok(None),
            false => Self::for_shape(shape, types, spilling).map(Some),
        }
    }

    /// A file for rows like those of a chunk.
    pub(crate) fn of(chunk: &StagedChunk, spilling: &Spilling) -> Result<Self> {
        let shape = chunk.shape();
        let stored = chunk.stored(&shape, 0..0)?.into_iter();
        let types = stored.map(|array| array.data_type().clone());
        Self::for_shape(shape, types.collect(), spilling)
    }

    fn for_shape(shape: ChunkShape, types: Vec<DataType>, spilling: &Spilling) -> Result<Self> {
        let fields = types.into_iter().enumerate();
        let fields = fields.map(|(i, data_type)| Field::new(format!("c{i}"), data_type, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self {
            writer: spilling.create(&schema, "BowtieChunk")?,
            bytes: vec![0; schema.fields().len()],
            schema,
            shape,
            rows: 0,
            spilling: spilling.clone(),
        })
    }

    /// Appends a batch.
    pub(crate) fn append(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        for (bytes, array) in self.bytes.iter_mut().zip(&columns) {
            *bytes += array_bytes(array);
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        self.rows += batch.num_rows();
        Ok(self.writer.append(&batch)?)
    }

    /// Appends the rows of a chunk of the same shape, in batches of limited size.
    pub(crate) fn append_chunk(&mut self, chunk: &StagedChunk) -> Result<()> {
        let mut row_bytes = 0;
        for column in 0..self.shape.columns() {
            row_bytes += chunk.mean_bytes(column)?;
        }
        let each = spilled_rows(row_bytes as usize);
        for begin in (0..chunk.rows()).step_by(each) {
            let rows = begin..(begin + each).min(chunk.rows());
            self.append(chunk.stored(&self.shape, rows)?)?;
        }
        Ok(())
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.iter().sum()
    }

    /// The chunk, or `None` if it has no rows. Loaded rows are reserved for the consumer of `reservation`.
    pub(crate) fn finish(
        self,
        failures: Vec<(usize, Arc<DataFusionError>)>,
        reservation: &MemoryReservation,
    ) -> Result<Option<SpilledChunk>> {
        let bytes = self.bytes();
        let rows = self.rows.max(1);
        let stored = self.bytes.iter().map(|bytes| bytes.div_ceil(rows) as u64);
        let mean_bytes = self.shape.mean_bytes(stored);
        let Some(file) = self.writer.finish()? else {
            return Ok(None);
        };
        Ok(Some(SpilledChunk {
            rows: self.rows,
            schema: self.schema,
            file,
            shape: self.shape,
            failures,
            partition: 0,
            mean_bytes,
            bytes,
            spilling: self.spilling,
            reservation: Arc::new(reservation.new_empty()),
            loaded: Mutex::new(None),
        }))
    }
}

impl SpilledChunk {
    /// Writes a chunk to a file; `None` if it has no rows or no columns.
    pub(crate) fn write(chunk: &StagedChunk, spilling: &Spilling) -> Result<Option<Self>> {
        let shape = chunk.shape();
        if shape.columns() == 0 || chunk.rows() == 0 {
            return Ok(None);
        }
        let mut writer = ChunkWriter::of(chunk, spilling)?;
        writer.append_chunk(chunk)?;
        let spilled = writer.finish(chunk.failures.clone(), &chunk.reservation)?;
        Ok(spilled.map(|spilled| spilled.of_partition(chunk.partition)))
    }

    /// The chunk as a chunk of hash partition `partition`.
    pub(crate) fn of_partition(self, partition: u32) -> Self {
        Self { partition, ..self }
    }

    pub(crate) fn partition(&self) -> u32 {
        self.partition
    }

    /// Bytes of all rows, approximately.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn failures(&self) -> &Failures {
        &self.failures
    }

    pub(crate) fn mean_bytes(&self, column: usize) -> u64 {
        self.mean_bytes[column]
    }

    /// The reservation of the rows in memory; an empty one if there are none.
    pub(crate) fn reservation(&self) -> Arc<MemoryReservation> {
        let loaded = self.loaded.lock();
        let reserved = loaded.as_ref().map(|loaded| &loaded.chunk.reservation);
        Arc::clone(reserved.unwrap_or(&self.reservation))
    }

    /// All rows, read if they are not in memory. Blocks.
    pub(crate) fn chunk(&self) -> Result<Arc<StagedChunk>> {
        self.part(&(0..self.rows)).map(|(chunk, _)| chunk)
    }

    /// A chunk that includes `rows`, and their range in it. All rows are read if the memory pool has memory for them,
    /// otherwise only `rows`.
    pub(crate) fn part(&self, rows: &Range<usize>) -> Result<(Arc<StagedChunk>, Range<usize>)> {
        let mut loaded = self.loaded.lock();
        let covers = |l: &Loaded| l.rows.start <= rows.start && rows.end <= l.rows.end;
        let at_hand = match loaded.as_ref().filter(|loaded| covers(loaded)) {
            Some(at_hand) => at_hand.clone(),
            None => {
                *loaded = None;
                let read = match self.read(0..self.rows) {
                    Err(e) if e.is_out_of_host_memory() && rows.len() < self.rows => {
                        self.read(rows.clone())
                    }
                    read => read,
                };
                loaded.insert(read?).clone()
            }
        };
        let first = at_hand.rows.start;
        Ok((at_hand.chunk, rows.start - first..rows.end - first))
    }

    /// Calls `take` with all rows, about `bytes` bytes at a time, for which nothing is reserved.
    pub(crate) fn each(
        &self,
        bytes: usize,
        take: &mut dyn FnMut(&StagedChunk) -> Result<()>,
    ) -> Result<()> {
        let mut waiting: Vec<RecordBatch> = vec![];
        let mut give = |waiting: &mut Vec<RecordBatch>| {
            let rows = waiting.iter().map(RecordBatch::num_rows).sum();
            let columns = 0..self.schema.fields().len();
            let columns = columns.map(|i| {
                let parts = waiting.iter().map(|batch| Arc::clone(batch.column(i)));
                parts.collect()
            });
            let columns = columns.collect();
            waiting.clear();
            let (failures, reservation) = (self.failures.clone(), self.reservation.new_empty());
            let chunk = StagedChunk::restored(&self.shape, rows, columns, failures, reservation);
            take(&chunk)
        };
        for batch in self.spilling.read(&self.schema, &self.file)? {
            waiting.push(batch?);
            if waiting.iter().map(batch_bytes).sum::<usize>() >= bytes {
                give(&mut waiting)?;
            }
        }
        match waiting.is_empty() {
            true => Ok(()),
            false => give(&mut waiting),
        }
    }

    /// Reads and reserves some rows.
    fn read(&self, rows: Range<usize>) -> Result<Loaded> {
        let reservation = self.reservation.new_empty();
        let share = rows.len() as f64 / self.rows.max(1) as f64;
        reservation.try_grow((self.bytes as f64 * share).ceil() as usize)?;
        let mut columns = vec![vec![]; self.schema.fields().len()];
        let mut first = 0;
        for batch in self.spilling.read(&self.schema, &self.file)? {
            let batch = batch?;
            let of_batch = first..first + batch.num_rows();
            first = of_batch.end;
            let begin = rows.start.clamp(of_batch.start, of_batch.end);
            let end = rows.end.clamp(of_batch.start, of_batch.end);
            if begin < end || (rows.is_empty() && columns.iter().all(Vec::is_empty)) {
                let batch = batch.slice(begin - of_batch.start, end - begin);
                for (parts, array) in columns.iter_mut().zip(batch.columns()) {
                    parts.push(Arc::clone(array));
                }
            }
            if first >= rows.end {
                break;
            }
        }
        let failures = self.failures.clone();
        let chunk = StagedChunk::restored(&self.shape, rows.len(), columns, failures, reservation);
        Ok(Loaded {
            rows,
            chunk: Arc::new(chunk),
        })
    }

    /// Drops the rows in memory, which is freed once nobody uses them; false if there are none.
    pub(crate) fn unload(&self) -> bool {
        self.loaded.lock().take().is_some()
    }
}

impl std::fmt::Debug for SpilledChunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpilledChunk")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}
