//! The tables of TPC-H as Parquet files, made by the `tpchgen` crate on all cores.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use tpchgen::generators::*;
use tpchgen_arrow::*;

const BATCH_ROWS: usize = 8192;

/// The tables, those of which several parts are made first.
const TABLES: [&str; 8] = [
    "lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region",
];

/// Where data is kept.
pub(super) fn default_folder() -> Result<PathBuf> {
    let cache = dirs::cache_dir().ok_or_else(|| {
        DataFusionError::Execution("this user has no cache folder: name one by --data".into())
    })?;
    Ok(cache.join("bowtie-sql"))
}

/// Makes the files that are not there.
pub(super) fn make(folder: &Path, scale: f64) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for table in TABLES {
        let target = folder.join(table);
        if target.is_dir() {
            continue;
        }
        eprintln!("making {}", target.display());
        let parts = match table {
            "nation" | "region" | "supplier" => 1,
            _ if scale < 0.1 => 1,
            _ => cores,
        };
        // Only whole tables get their name.
        let unfinished = folder.join(format!("{table}.unfinished"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        fs::create_dir_all(&unfinished)?;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=parts)
                .map(|part| {
                    let file = unfinished.join(format!("{part:03}.parquet"));
                    scope.spawn(move || {
                        let rows = rows(table, scale, part as i32, parts as i32);
                        write(&file, rows)
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| {
                let failed = || DataFusionError::Execution(format!("making {table} failed"));
                thread.join().map_err(|_| failed())?
            })
        })?;
        fs::rename(&unfinished, &target)?;
    }
    Ok(())
}

fn write(file: &Path, rows: Box<dyn RecordBatchReader>) -> Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(file)?, rows.schema(), Some(properties))?;
    for batch in rows {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

/// Part `part` of `parts` of a table.
fn rows(table: &str, scale: f64, part: i32, parts: i32) -> Box<dyn RecordBatchReader> {
    macro_rules! reader {
        ($arrow:ident, $generator:ident) => {
            Box::new($arrow::new($generator::new(scale, part, parts)).with_batch_size(BATCH_ROWS))
        };
    }
    match table {
        "lineitem" => reader!(LineItemArrow, LineItemGenerator),
        "orders" => reader!(OrderArrow, OrderGenerator),
        "partsupp" => reader!(PartSuppArrow, PartSuppGenerator),
        "part" => reader!(PartArrow, PartGenerator),
        "customer" => reader!(CustomerArrow, CustomerGenerator),
        "supplier" => reader!(SupplierArrow, SupplierGenerator),
        "nation" => reader!(NationArrow, NationGenerator),
        _ => reader!(RegionArrow, RegionGenerator),
    }
}

/// Registers the tables; `in_memory`: their rows are read first.
pub(super) async fn register(
    context: &SessionContext,
    folder: &Path,
    in_memory: bool,
) -> Result<()> {
    for table in TABLES {
        let files = folder.join(table);
        let files = files.to_string_lossy();
        if !in_memory {
            let options = ParquetReadOptions::default();
            context.register_parquet(table, files, options).await?;
            continue;
        }
        let rows = context.read_parquet(files.as_ref(), ParquetReadOptions::default());
        let rows = rows.await?;
        let schema = std::sync::Arc::clone(rows.schema().inner());
        let partitions: Vec<Vec<RecordBatch>> = rows.collect_partitioned().await?;
        let in_memory = MemTable::try_new(schema, partitions)?;
        context.register_table(table, std::sync::Arc::new(in_memory))?;
    }
    Ok(())
}
