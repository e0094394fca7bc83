//! The tables of a soak, all with the columns `k`, `v` and `t`: some that never change, and a client's own.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use tempfile::TempDir;

use crate::cache::{batch, lines};

/// Rows of a shared table.
const ROWS: i64 = 3_000;

/// A table in memory of two partitions, in batches of `each` rows; `v` begins at `first`.
pub(super) fn table(first: i64, rows: i64, each: i64) -> Arc<MemTable> {
    let mut partitions = vec![vec![], vec![]];
    for (n, from) in (0..rows).step_by(each as usize).enumerate() {
        partitions[n % 2].push(batch(first + from, each.min(rows - from)));
    }
    Arc::new(MemTable::try_new(batch(0, 0).schema(), partitions).unwrap())
}

pub(super) struct SharedTables {
    memory: Vec<(&'static str, Arc<dyn TableProvider>)>,
    pub files: TempDir,
}

impl SharedTables {
    pub fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        #[cfg(feature = "parquet")]
        for n in 0..3 {
            let name = format!("{n}.parquet");
            write_file(&files, &name, n * ROWS / 2, ROWS / 3, Some(0));
        }
        Self {
            memory: vec![
                ("shared_a", table(0, ROWS, 500)),
                ("shared_b", table(ROWS / 2, ROWS, 77)),
                // So many arrays that plans share a snapshot of them.
                ("shared_small_batches", table(100, 2_000, 4)),
            ],
            files,
        }
    }

    /// The names of its tables.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.memory.iter().map(|(name, _)| *name).collect();
        if cfg!(feature = "parquet") {
            names.push("shared_file");
        }
        names
    }

    pub async fn register(&self, ctx: &SessionContext) {
        for (name, table) in &self.memory {
            ctx.register_table(*name, Arc::clone(table)).unwrap();
        }
        if cfg!(feature = "parquet") {
            register_files(ctx, "shared_file", &self.files).await;
        }
    }
}

/// A table of the Parquet files in a directory, whose list is asked for in each query.
pub(super) async fn register_files(ctx: &SessionContext, name: &str, directory: &TempDir) {
    lines(ctx, "SET datafusion.runtime.list_files_cache_limit = '0K'").await;
    let path = directory.path().display();
    let sql = format!(
        "CREATE EXTERNAL TABLE {name} (k BIGINT, v BIGINT, t VARCHAR) STORED AS PARQUET LOCATION '{path}/'"
    );
    lines(ctx, &sql).await;
}

/// Writes a file, `Some` seconds after a fixed time, or now.
#[cfg(feature = "parquet")]
pub(super) fn write_file(
    directory: &TempDir,
    name: &str,
    first: i64,
    rows: i64,
    seconds: Option<u64>,
) {
    let path = directory.path().join(name);
    let bytes = crate::cache::parquet::encoded(&[batch(first, rows)], 400);
    match seconds {
        Some(seconds) => crate::cache::parquet::write_at(&path, &bytes, seconds),
        None => {
            // Times of files have some milliseconds.
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// Frees the columns of all files of a directory, of which older versions may be stored too.
pub(super) async fn forget(ctx: &SessionContext, directory: &TempDir) {
    if cfg!(feature = "parquet") {
        register_files(ctx, "forgotten", directory).await;
        lines(ctx, "SELECT k, sum(v), max(t) FROM forgotten GROUP BY k").await;
        lines(ctx, "SELECT * FROM bowtie_unpin('forgotten')").await;
        lines(ctx, "DROP TABLE forgotten").await;
    }
}
