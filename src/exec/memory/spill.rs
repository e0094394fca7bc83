//! [`Spilling`]: writes to files of DataFusion's disk manager what its memory pool refuses, and reads it back.

use std::fs::File;
use std::io::BufReader;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::StreamExt;
use tokio::runtime::Handle;

/// The most rows of a batch in a file.
pub(crate) const SPILLED_ROWS: usize = 8192;
/// About the most bytes of a batch in a file: what a thread holds outside the pool while it writes or reads.
const SPILLED_BYTES: usize = 4 << 20;

/// Rows of a batch in a file, at `row_bytes` bytes a row.
pub(crate) fn spilled_rows(row_bytes: usize) -> usize {
    (SPILLED_BYTES / row_bytes.max(1)).clamp(1, SPILLED_ROWS)
}

/// How one execution of a node spills.
#[derive(Clone)]
pub(crate) struct Spilling {
    env: Arc<RuntimeEnv>,
    set: ExecutionPlanMetricsSet,
    /// Created when something is spilled for the first time.
    metrics: Arc<OnceLock<SpillMetrics>>,
    compression: datafusion::common::config::SpillCompression,
    /// The runtime on which spill files that are not local are read, by threads that may block.
    handle: Handle,
    /// The most bytes that a node keeps in the pool: half of it, since its inputs and outputs need memory too.
    pub most: usize,
}

impl std::fmt::Debug for Spilling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spilling")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

impl Spilling {
    /// `None` if the session allows no files.
    pub(crate) fn of(context: &TaskContext, set: &ExecutionPlanMetricsSet) -> Option<Self> {
        let env = context.runtime_env();
        let handle = Handle::try_current().ok()?;
        env.disk_manager.tmp_files_enabled().then(|| Self {
            set: set.clone(),
            metrics: Arc::default(),
            compression: context.session_config().spill_compression(),
            handle,
            most: match context.memory_pool().memory_limit() {
                MemoryLimit::Finite(limit) => limit / 2,
                _ => usize::MAX,
            },
            env,
        })
    }

    /// Whether more than half of the pool is reserved, so that nodes that can spill should.
    pub(crate) fn pool_is_full(&self) -> bool {
        self.env.memory_pool.reserved() > self.most
    }

    /// Whether more than three quarters of the pool are reserved, so that only chunks in use should stay in memory.
    pub(crate) fn pool_is_tight(&self) -> bool {
        self.env.memory_pool.reserved() > self.most.saturating_add(self.most / 2)
    }

    /// DataFusion's reader and writer of spill files.
    pub(crate) fn manager(&self, schema: &SchemaRef) -> SpillManager {
        let metrics = self.metrics.get_or_init(|| SpillMetrics::new(&self.set, 0));
        let (env, schema) = (Arc::clone(&self.env), Arc::clone(schema));
        SpillManager::new(env, metrics.clone(), schema).with_compression_type(self.compression)
    }

    /// Creates a file for batches of `schema`.
    pub(crate) fn create(&self, schema: &SchemaRef, what: &str) -> Result<SpillWriter> {
        let mut file = self.manager(schema).create_in_progress_file(what)?;
        Ok(SpillWriter(Box::new(move |batch| match batch {
            Some(batch) => file.append_batch(batch).map(|_| None),
            None => file.finish(),
        })))
    }

    /// The batches of a file, in their order. Blocks.
    pub(crate) fn read(
        &self,
        schema: &SchemaRef,
        file: &Arc<dyn SpillFile>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let file = Arc::clone(file);
        // This thread reads a local file itself. A stream of it would wait for another blocking thread, and there may
        // be none.
        let local = match file.path() {
            Some(path) => {
                let opened = BufReader::new(File::open(path)?);
                Some(StreamReader::try_new(opened, None)?)
            }
            None => None,
        };
        let mut other = match local {
            Some(_) => None,
            None => {
                let manager = self.manager(schema);
                Some(manager.read_spill_as_stream_unbuffered(Arc::clone(&file), None)?)
            }
        };
        let mut local = local.map(|reader| (reader, file));
        let handle = self.handle.clone();
        Ok(std::iter::from_fn(move || match (&mut local, &mut other) {
            (Some((reader, _)), _) => Some(reader.next()?.map_err(Into::into)),
            (None, Some(batches)) => handle.block_on(batches.next()),
            (None, None) => None,
        }))
    }
}

/// Appends a batch, or without one finishes the file.
type Append = dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send;

/// A file that is being written. DataFusion does not export the type of its own writer.
pub(crate) struct SpillWriter(Box<Append>);

impl SpillWriter {
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        (self.0)(Some(batch)).map(|_| ())
    }

    /// Finishes the file; `None` if nothing was written.
    pub(crate) fn finish(mut self) -> Result<Option<Arc<dyn SpillFile>>> {
        (self.0)(None)
    }
}
