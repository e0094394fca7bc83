//! `SELECT * FROM bowtie_cache()`: the columns that stay on devices between queries.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;

use crate::plan::cache::rows_table::{Rows, RowsTable};
use crate::plan::cache::session_tables::SessionTables;
use crate::plan::cache::state_of::state_of;
use crate::runtime::process::BowtieRuntime;
use crate::store::column_store::StoredColumnInfo;

/// The table function. It takes no argument.
#[derive(Debug)]
pub(crate) struct CacheFunction {
    pub(crate) runtime: Arc<BowtieRuntime>,
}

impl CacheFunction {
    pub(crate) const NAME: &'static str = "bowtie_cache";
}

impl TableFunctionImpl for CacheFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        RowsTable::without_arguments(StoredColumns(Arc::clone(&self.runtime)), &args)
    }
}

/// The stored columns at the time of the scan.
#[derive(Debug)]
struct StoredColumns(Arc<BowtieRuntime>);

fn schema() -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::UInt64, false);
    Arc::new(Schema::new(vec![
        Field::new("device", DataType::Utf8, false),
        Field::new("table", DataType::Utf8, true),
        Field::new("column", DataType::Utf8, false),
        number("rows"),
        number("bytes"),
        number("host_bytes"),
        Field::new("encoding", DataType::Utf8, true),
        number("hits"),
        Field::new("idle_seconds", DataType::Float64, false),
        Field::new("pinned", DataType::Boolean, false),
    ]))
}

/// A row of the table: a column of a table on a device, all of its pieces together.
struct Row {
    device: String,
    table: Option<String>,
    column: String,
    rows: u64,
    bytes: u64,
    host_bytes: u64,
    /// That of its pieces, if they have the same.
    encoding: Option<String>,
    hits: u64,
    idle_seconds: f64,
    pinned: bool,
}

impl Row {
    fn add(&mut self, piece: &StoredColumnInfo) {
        if self.rows > 0 && self.encoding != piece.encoding {
            self.encoding = Some("several".into());
        } else {
            self.encoding.clone_from(&piece.encoding);
        }
        self.rows += piece.rows as u64;
        self.bytes += piece.bytes;
        self.host_bytes += piece.host_bytes;
        self.hits += piece.hits;
        self.idle_seconds = self.idle_seconds.min(piece.idle.as_secs_f64());
        self.pinned &= piece.pinned;
    }
}

/// The rows of the table, by device, table and column.
fn rows(runtime: &BowtieRuntime, tables: &SessionTables) -> Vec<Row> {
    let mut rows: Vec<Row> = vec![];
    for (device, store) in runtime.stores() {
        for piece in store.list() {
            let table = piece.origin.as_ref();
            let table = table.and_then(|origin| tables.name_of(origin));
            let known = rows.iter_mut().find(|row| {
                row.device == device && row.table == table && *row.column == *piece.name
            });
            match known {
                Some(row) => row.add(&piece),
                None => {
                    let mut row = Row {
                        device: device.clone(),
                        table,
                        column: piece.name.to_string(),
                        rows: 0,
                        bytes: 0,
                        host_bytes: 0,
                        encoding: None,
                        hits: 0,
                        idle_seconds: f64::INFINITY,
                        pinned: true,
                    };
                    row.add(&piece);
                    rows.push(row);
                }
            }
        }
    }
    rows.sort_by(|a, b| (&a.device, &a.table, &a.column).cmp(&(&b.device, &b.table, &b.column)));
    rows
}

fn to_batch(rows: &[Row]) -> Result<RecordBatch> {
    let numbers = |of: fn(&Row) -> u64| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|row| Some(of(row)))
                .collect::<UInt64Array>(),
        )
    };
    let text = |of: fn(&Row) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let idle: Float64Array = rows.iter().map(|row| Some(row.idle_seconds)).collect();
    let pinned: BooleanArray = rows.iter().map(|row| Some(row.pinned)).collect();
    let columns = vec![
        text(|row| Some(&row.device)),
        text(|row| row.table.as_deref()),
        text(|row| Some(&row.column)),
        numbers(|row| row.rows),
        numbers(|row| row.bytes),
        numbers(|row| row.host_bytes),
        text(|row| row.encoding.as_deref()),
        numbers(|row| row.hits),
        Arc::new(idle),
        Arc::new(pinned),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

#[async_trait]
impl Rows for StoredColumns {
    fn function(&self) -> &'static str {
        CacheFunction::NAME
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    async fn rows(&self, session: &dyn Session) -> Result<RecordBatch> {
        let state = state_of(session, self.function())?;
        let tables = SessionTables::of(state).await;
        to_batch(&rows(&self.0, &tables))
    }
}
