//! Columns of Parquet files that stay on the device: a table is read and sent once.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::SessionContext;
use datafusion_bowtie::BowtieRuntime;
use tempfile::TempDir;

use crate::cache::{lines, session};

mod blocks;
mod damaged;
mod encodings;
mod host_cache;
mod parts;
mod pins;
mod predicates;
mod reuse;
mod room;
mod schemas;
mod stale;

/// Seconds after 1970 at which the files of a test were written; each round may have its own.
const WRITTEN: u64 = 1_700_000_000;

/// A session that asks the object store for the files of each query.
async fn listing_session(memory: u64, cache: &str) -> (SessionContext, Arc<BowtieRuntime>) {
    let (ctx, runtime) = session(memory, cache);
    lines(&ctx, "SET datafusion.runtime.list_files_cache_limit = '0K'").await;
    (ctx, runtime)
}

/// The bytes of a file of these batches, with row groups of so many rows.
pub(crate) fn encoded(batches: &[RecordBatch], group_rows: usize) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .build();
    let schema = batches[0].schema();
    let all = concat_batches(&schema, batches).unwrap();
    let mut writer = ArrowWriter::try_new(vec![], schema, Some(properties)).unwrap();
    writer.write(&all).unwrap();
    writer.into_inner().unwrap()
}

/// Writes a file, as at a time in seconds after [`WRITTEN`].
pub(crate) fn write_at(path: &Path, bytes: &[u8], seconds: u64) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(WRITTEN + seconds);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

/// Writes a file of these batches, with row groups of so many rows.
fn write(path: &Path, batches: &[RecordBatch], group_rows: usize) {
    write_at(path, &encoded(batches, group_rows), 0);
}

/// Table `r` of the files in a directory.
async fn create(ctx: &SessionContext, directory: &TempDir) {
    let path = directory.path().display();
    let sql = format!("CREATE EXTERNAL TABLE r STORED AS PARQUET LOCATION '{path}/'");
    lines(ctx, &sql).await;
}
