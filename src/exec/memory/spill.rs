//! [`Spilling`]: what DataFusion's memory pool has no room for, in files of its disk manager.

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

/// Rows of a batch in a file.
pub(crate) const SPILLED_ROWS: usize = 8192;
/// Bytes of one, about: what a thread holds beside the pool while it writes or reads.
const SPILLED_BYTES: usize = 4 << 20;

/// Rows of a batch in a file, of so many bytes each.
pub(crate) fn spilled_rows(row_bytes: usize) -> usize {
    (SPILLED_BYTES / row_bytes.max(1)).clamp(1, SPILLED_ROWS)
}

/// How one execution of a node spills.
#[derive(Clone)]
pub(crate) struct Spilling {
    env: Arc<RuntimeEnv>,
    set: ExecutionPlanMetricsSet,
    /// Made when something is spilled.
    metrics: Arc<OnceLock<SpillMetrics>>,
    compression: datafusion::common::config::SpillCompression,
    /// What is no file of this machine is read asynchronously, by threads that may block.
    handle: Handle,
    /// Bytes that a node keeps in the pool, at most: half of it, as what it reads and writes needs room too.
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
    /// `None` where the session allows no files.
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

    /// Whether those who share the pool hold so much of it that who can spill had better.
    pub(crate) fn pool_is_full(&self) -> bool {
        self.env.memory_pool.reserved() > self.most
    }

    /// Whether so little of the pool is left that only what is worked on should stay in it.
    pub(crate) fn pool_is_tight(&self) -> bool {
        self.env.memory_pool.reserved() > self.most.saturating_add(self.most / 2)
    }

    fn manager(&self, schema: &SchemaRef) -> SpillManager {
        let metrics = self.metrics.get_or_init(|| SpillMetrics::new(&self.set, 0));
        let (env, schema) = (Arc::clone(&self.env), Arc::clone(schema));
        SpillManager::new(env, metrics.clone(), schema).with_compression_type(self.compression)
    }

    /// A file for batches of `schema`.
    pub(crate) fn create(&self, schema: &SchemaRef, what: &str) -> Result<SpillWriter> {
        let mut file = self.manager(schema).create_in_progress_file(what)?;
        Ok(SpillWriter(Box::new(move |batch| match batch {
            Some(batch) => file.append_batch(batch).map(|_| None),
            None => file.finish(),
        })))
    }

    /// The batches of a file, in their order. Not for a thread that may not block.
    pub(crate) fn read(
        &self,
        schema: &SchemaRef,
        file: &Arc<dyn SpillFile>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let file = Arc::clone(file);
        // This thread reads itself what is a file: a stream of one waits for another thread, of which there may be none.
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

/// What appends a batch; without one, what ends the file.
type Append = dyn FnMut(Option<&RecordBatch>) -> Result<Option<Arc<dyn SpillFile>>> + Send;

/// A file that is being written. DataFusion does not export the type of its own.
pub(crate) struct SpillWriter(Box<Append>);

impl SpillWriter {
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        (self.0)(Some(batch)).map(|_| ())
    }

    /// `None` where nothing was written.
    pub(crate) fn finish(mut self) -> Result<Option<Arc<dyn SpillFile>>> {
        (self.0)(None)
    }
}
