//! Reads columns of a piece, by DataFusion's own scan: values are decoded and cast to the table's types as in any query.
//!
//! ```text
//! row groups of the piece ─► runs × some of the columns, a task each ─► arrays in the order of the rows
//! ```

use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::runtime::JoinSet;
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};

use crate::exec::chunk::sizes::batch_bytes;
use crate::exec::metrics::ReadMetrics;
use crate::exec::scan::parquet::file::ParquetFile;
use crate::exec::scan::parquet::piece::ParquetPiece;
use crate::exec::scan::read_columns::ReadColumns;

/// Files whose versions are asked for at the same time.
const FILES_AT_ONCE: usize = 32;

/// Row groups of files, which a task reads.
#[derive(Debug, Default)]
struct Run {
    rows: usize,
    groups: Vec<(Arc<ParquetFile>, Vec<usize>)>,
}

/// What a task has read.
struct Task {
    run: usize,
    /// Its first column, among those that are read.
    column: usize,
    /// `None` where the memory pool has refused them.
    batches: Option<(Vec<RecordBatch>, MemoryReservation)>,
}

impl ParquetPiece {
    /// The row groups in their order, in up to `most` runs.
    fn runs(&self, most: usize) -> Vec<Run> {
        let each = self.rows.div_ceil(most.max(1));
        let mut runs = vec![Run::default()];
        for part in &self.parts {
            let groups = part.file.rows().enumerate();
            let groups = groups
                .skip(part.row_groups.start)
                .take(part.row_groups.len());
            for (group, rows) in groups.filter(|(_, rows)| *rows > 0) {
                if runs.last().is_some_and(|run| run.rows >= each) {
                    runs.push(Run::default());
                }
                let Some(run) = runs.last_mut() else {
                    continue;
                };
                run.rows += rows;
                match run.groups.last_mut() {
                    Some((file, groups)) if Arc::ptr_eq(file, &part.file) => groups.push(group),
                    _ => run.groups.push((Arc::clone(&part.file), vec![group])),
                }
            }
        }
        runs
    }

    /// Reads some of its columns; `None` if there is no memory for them, they cannot be read, or the files have changed.
    pub(crate) async fn read(
        &self,
        columns: Vec<usize>,
        context: Arc<TaskContext>,
        metrics: ReadMetrics,
    ) -> Result<Option<ReadColumns>> {
        // What would not be stored is not read twice.
        let now = now();
        let mut parts = self.parts.iter();
        if !parts.all(|part| part.file.version.is_settled(now)) {
            return Ok(None);
        }
        let wished = context.session_config().target_partitions().max(1);
        let runs = self.runs(wished);
        let each = columns.len().div_ceil(wished.div_ceil(runs.len())).max(1);
        let mut tasks = JoinSet::new();
        let mut plans = vec![];
        for (chunk, some) in columns.chunks(each).enumerate() {
            let groups = runs.iter().map(|run| {
                let files = run.groups.iter();
                let files = files.map(|(file, groups)| file.only(groups.iter().copied()));
                FileGroup::new(files.collect())
            });
            let source = self.table.source();
            let plan = source.scan_of(groups.collect(), &self.table.in_table(some))?;
            for run in 0..runs.len() {
                let (plan, context) = (Arc::clone(&plan), Arc::clone(&context));
                tasks.spawn(async move {
                    Ok::<_, DataFusionError>(Task {
                        run,
                        column: chunk * each,
                        batches: collected(plan, run, context).await?,
                    })
                });
            }
            plans.push(plan);
        }
        let mut read: Vec<Vec<Vec<ArrayRef>>> = vec![vec![vec![]; runs.len()]; columns.len()];
        let mut reservations = vec![];
        while let Some(task) = tasks.join_next().await {
            let task = match task {
                Ok(Ok(task)) => task,
                // The scan of the query may need no row that fails, such as by a cast. If it does, it says so.
                Ok(Err(_)) => return Ok(None),
                // The decoder panics on some pages that are damaged.
                Err(error) if error.is_panic() => return Ok(None),
                Err(error) => return Err(DataFusionError::ExecutionJoin(Box::new(error))),
            };
            let Some((batches, reservation)) = task.batches else {
                return Ok(None);
            };
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            if rows != runs[task.run].rows {
                return Ok(None);
            }
            reservations.push(reservation);
            for batch in batches {
                metrics
                    .decoded_values
                    .add(batch.num_rows() * batch.num_columns());
                for (i, array) in batch.columns().iter().enumerate() {
                    read[task.column + i][task.run].push(Arc::clone(array));
                }
            }
        }
        for plan in plans {
            let scanned = plan.metrics();
            let bytes = scanned.and_then(|metrics| metrics.sum_by_name("bytes_scanned"));
            metrics
                .read_bytes
                .add(bytes.map_or(0, |bytes| bytes.as_usize()));
        }
        if !self.is_unchanged().await {
            return Ok(None);
        }
        let mut all = vec![None; self.table.schema().fields().len()];
        for (column, runs) in columns.into_iter().zip(read) {
            all[column] = Some(runs.into_iter().flatten().collect());
        }
        Ok(Some(ReadColumns {
            columns: all,
            reservations,
        }))
    }

    /// Whether all its files are what they were when the query began, and will be told from others.
    async fn is_unchanged(&self) -> bool {
        let now = now();
        let files = stream::iter(self.parts.clone()).map(|part| {
            let files = self.files.clone();
            async move {
                let version = files.version(&part.file.file).await;
                version.is_some_and(|(_, version)| {
                    version == *part.file.version && version.is_settled(now)
                })
            }
        });
        files
            .buffer_unordered(FILES_AT_ONCE)
            .all(|unchanged| async move { unchanged })
            .await
    }
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
}

/// The batches of a partition; `None` if the memory pool refuses them.
async fn collected(
    plan: Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<Option<(Vec<RecordBatch>, MemoryReservation)>> {
    let consumer = MemoryConsumer::new("BowtieScan");
    let reservation = consumer.register(context.memory_pool());
    let mut stream = plan.execute(partition, context)?;
    let mut batches = vec![];
    while let Some(batch) = stream.try_next().await? {
        if reservation.try_grow(batch_bytes(&batch)).is_err() {
            return Ok(None);
        }
        batches.push(batch);
    }
    Ok(Some((batches, reservation)))
}
