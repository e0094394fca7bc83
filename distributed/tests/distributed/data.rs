//! The files that the queries read: TPC-H, and tables for theta and set joins.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int64Array, ListBuilder, RecordBatch, RecordBatchReader, StringBuilder,
};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::Result;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};
use tempfile::TempDir;
use tpchgen::generators::*;
use tpchgen_arrow::*;

const SCALE: f64 = 0.01;
/// Few, so that files can be divided among tasks.
const ROW_GROUP: usize = 1000;

pub(crate) const TABLES: [&str; 11] = [
    "nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem", "points",
    "spans", "tags",
];

/// A folder with all tables.
pub(crate) fn write() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    macro_rules! table {
        ($name:literal, $arrow:ident, $generator:ident) => {
            let rows = $arrow::new($generator::new(SCALE, 1, 1)).with_batch_size(8192);
            let schema = rows.schema();
            let batches = rows.map(|batch| batch.unwrap());
            write_table(folder.path(), $name, schema, batches);
        };
    }
    table!("nation", NationArrow, NationGenerator);
    table!("region", RegionArrow, RegionGenerator);
    table!("part", PartArrow, PartGenerator);
    table!("supplier", SupplierArrow, SupplierGenerator);
    table!("partsupp", PartSuppArrow, PartSuppGenerator);
    table!("customer", CustomerArrow, CustomerGenerator);
    table!("orders", OrderArrow, OrderGenerator);
    table!("lineitem", LineItemArrow, LineItemGenerator);
    for (name, batch) in [("points", points()), ("spans", spans()), ("tags", tags())] {
        write_table(folder.path(), name, batch.schema(), [batch].into_iter());
    }
    folder
}

fn write_table(
    folder: &Path,
    name: &str,
    schema: datafusion::arrow::datatypes::SchemaRef,
    batches: impl Iterator<Item = RecordBatch>,
) {
    let file = File::create(folder.join(format!("{name}.parquet"))).unwrap();
    let groups = WriterProperties::builder().set_max_row_group_row_count(Some(ROW_GROUP));
    let mut writer = ArrowWriter::try_new(file, schema, Some(groups.build())).unwrap();
    for batch in batches {
        writer.write(&batch).unwrap();
    }
    writer.close().unwrap();
}

/// Numbers without a pattern.
fn scattered(i: i64, of: i64) -> i64 {
    (i * 7_919 + 13) % of
}

fn points() -> RecordBatch {
    let rows = 0..6000_i64;
    let at = rows
        .clone()
        .map(|i| (i % 97 != 0).then(|| scattered(i, 100_003)));
    let weights = rows.clone().map(|i| scattered(i, 1000) as f64 / 8.0);
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(rows.clone()))),
        (
            "k",
            Arc::new(Int64Array::from_iter_values(rows.map(|i| i % 5))),
        ),
        ("at", Arc::new(Int64Array::from_iter(at))),
        ("w", Arc::new(Float64Array::from_iter_values(weights))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn spans() -> RecordBatch {
    let rows = 0..5000_i64;
    let starts = rows.clone().map(|i| scattered(i * 3, 100_003));
    let stops = rows.clone().map(|i| scattered(i * 3, 100_003) + i % 40);
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(rows.clone()))),
        (
            "k",
            Arc::new(Int64Array::from_iter_values(rows.map(|i| i % 7))),
        ),
        ("start", Arc::new(Int64Array::from_iter_values(starts))),
        ("stop", Arc::new(Int64Array::from_iter_values(stops))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn tags() -> RecordBatch {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for i in 0..3000_i64 {
        for j in 0..3 + i % 4 {
            lists
                .values()
                .append_value(format!("t{}", scattered(i / 3 * 5 + j, 211)));
        }
        lists.append(i % 101 != 0);
    }
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..3000))),
        ("t", Arc::new(lists.finish())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Registers all tables of `folder`.
pub(crate) async fn register(context: &SessionContext, folder: &Path) -> Result<()> {
    for table in TABLES {
        let path = folder.join(format!("{table}.parquet"));
        let path = path.to_str().unwrap();
        let options = ParquetReadOptions::default();
        context.register_parquet(table, path, options).await?;
    }
    Ok(())
}

/// A table of text whose lines are no rows: its file may not be divided.
pub(crate) async fn register_lines(context: &SessionContext, folder: &Path) -> Result<()> {
    let path = folder.join("lines.csv");
    let rows = (0..3000).map(|i| format!("{i},\"a\n1000000,x\n1000000,y\"\n"));
    std::fs::write(&path, format!("id,t\n{}", rows.collect::<String>()))?;
    let options = CsvReadOptions::new().newlines_in_values(true);
    context
        .register_csv("lines", path.to_str().unwrap(), options)
        .await
}

/// The same table from a compressed file, without such text.
pub(crate) async fn register_compressed(context: &SessionContext, folder: &Path) -> Result<()> {
    let path = folder.join("packed.csv.gz");
    let single = SessionContext::new();
    let copy = format!(
        "COPY (SELECT value AS id FROM generate_series(0, 2999)) TO '{}' STORED AS CSV OPTIONS ('format.compression' 'gzip', 'format.has_header' 'true')",
        path.display()
    );
    single.sql(&copy).await?.collect().await?;
    let options = CsvReadOptions::new()
        .file_extension(".csv.gz")
        .file_compression_type(FileCompressionType::GZIP);
    context
        .register_csv("packed", path.to_str().unwrap(), options)
        .await
}
