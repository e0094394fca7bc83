//! `SELECT * FROM bowtie_pin('table')`: puts columns of a table on the device and keeps them there; `bowtie_unpin` lets them go.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::datasource::listing::ListingTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Time};

use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking_task;
use crate::exec::metrics::ReadMetrics;
use crate::exec::scan::loader::Loader;
use crate::exec::scan::node::cache_bytes;
use crate::exec::scan::read_columns::ReadColumns;
use crate::exec::scan::table::Table;
use crate::options::BowtieOptions;
use crate::plan::cache::rows_table::{Rows, RowsTable};
use crate::plan::cache::session_tables::are_of;
use crate::plan::cache::state_of::state_of;
use crate::runtime::planned_device::PlannedDevice;
use crate::runtime::session_devices::SessionDevices;
use crate::store::column_key::{Origin, TableColumns};
use crate::store::column_store::ColumnStore;
use crate::store::pin::Pin;
use crate::store::scan::WantedColumn as _;

/// One of the two table functions. Their arguments are a table and, if not all of them are meant, its columns.
#[derive(Debug)]
pub(crate) struct PinFunction {
    pub(crate) devices: Arc<SessionDevices>,
    pub(crate) action: Action,
}

/// What becomes of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Pin,
    Unpin,
}

impl Action {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pin => "bowtie_pin",
            Self::Unpin => "bowtie_unpin",
        }
    }
}

impl TableFunctionImpl for PinFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let name = self.action.name();
        let texts = args.exprs().iter().map(|expr| match expr {
            Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
                Some(text.clone())
            }
            _ => None,
        });
        let (table, columns) = match texts.collect::<Option<Vec<_>>>().as_deref() {
            Some([table]) => (table.clone(), None),
            Some([table, columns]) => (table.clone(), Some(columns.clone())),
            _ => {
                return Err(DataFusionError::Plan(format!(
                    "{name} takes a table and, if you like, its columns, as strings: {name}('lineitem', 'l_orderkey, l_shipdate')"
                )));
            }
        };
        Ok(RowsTable::of(Pinned {
            devices: Arc::clone(&self.devices),
            action: self.action,
            table,
            columns,
        }))
    }
}

/// What became of each column. It happens when the table is scanned.
#[derive(Debug)]
struct Pinned {
    devices: Arc<SessionDevices>,
    action: Action,
    table: String,
    columns: Option<String>,
}

fn schema() -> SchemaRef {
    let text = |name: &str, nullable: bool| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("device", false),
        text("column", false),
        Field::new("bytes", DataType::UInt64, false),
        text("reason", true),
    ]))
}

/// A column with its bytes, or why nothing became of it.
struct Row {
    column: String,
    outcome: std::result::Result<u64, String>,
}

impl Pinned {
    fn error(&self, message: &str) -> DataFusionError {
        DataFusionError::Plan(format!("{}: {message}", self.action.name()))
    }

    /// The numbers of the columns in the table's schema.
    fn chosen(&self, schema: &SchemaRef) -> Result<Vec<usize>> {
        let Some(columns) = &self.columns else {
            return Ok((0..schema.fields().len()).collect());
        };
        let chosen = columns.split(',').map(|name| {
            let name = name.trim();
            schema.index_of(name).map_err(|_| {
                let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                self.error(&format!(
                    "table '{}' has no column '{name}': it has {}",
                    self.table,
                    names.join(", ")
                ))
            })
        });
        chosen.collect()
    }

    async fn run(&self, state: &SessionState) -> Result<(String, Vec<Row>)> {
        let reference = TableReference::parse_str(&self.table);
        let unknown = || self.error(&format!("there is no table '{}'", self.table));
        let schema = state
            .schema_for_ref(reference.clone())
            .map_err(|_| unknown())?;
        let provider = schema.table(reference.table()).await?.ok_or_else(unknown)?;
        let chosen = self.chosen(&provider.schema())?;
        let options = BowtieOptions::of(state.config_options());
        let planned = PlannedDevice::new(&self.devices, options.device, options.device_memory.0)?;
        let planned = Arc::new(planned);
        let device = {
            let planned = Arc::clone(&planned);
            blocking_task(move || planned.open().map_err(Into::into)).await?
        };
        let work = Work {
            limit: cache_bytes(&options, &planned, device.as_ref()),
            store: planned.store(device.as_ref())?,
            device,
            action: self.action,
            // This function has one owner.
            pin: match Arc::strong_count(&provider) {
                1 => Pin::Always,
                _ => Pin::Table(Arc::downgrade(&provider)),
            },
        };
        let mut rows = vec![];
        for column in chosen {
            let plan = provider.scan(state, Some(&vec![column]), &[], None).await?;
            let name = provider.schema().field(column).name().clone();
            let outcome = match Table::of(&plan) {
                None => Err(
                    "the table is neither in memory nor of whole Parquet files, and its rows are uploaded for each query".into(),
                ),
                Some(table) => {
                    let mut stored_as = table.stored_as();
                    work.add_unlisted(&mut stored_as, provider.as_ref());
                    work.column(table, &stored_as, state.task_ctx()).await?
                }
            };
            rows.push(Row {
                column: name,
                outcome,
            });
        }
        Ok((work.device.name().to_string(), rows))
    }
}

/// What columns are pinned with.
struct Work {
    device: Arc<dyn Device>,
    store: Arc<ColumnStore>,
    limit: u64,
    action: Action,
    /// What pinned columns stay for.
    pin: Pin,
}

impl Work {
    /// Adds files of a table that are stored and listed no more.
    fn add_unlisted(&self, stored_as: &mut [TableColumns], provider: &dyn TableProvider) {
        let Some(listing) = provider.downcast_ref::<ListingTable>() else {
            return;
        };
        let stored = self.store.list().into_iter();
        let files = stored.filter_map(|column| match column.origin {
            Some(Origin::File(file)) if are_of(listing.table_paths(), &file) => Some(file),
            _ => None,
        });
        let unlisted: Vec<_> = files.collect();
        for columns in stored_as {
            if let TableColumns::Files { files, .. } = columns {
                files.extend(unlisted.iter().cloned());
            }
        }
    }

    /// Pins or unpins a column. Returns its bytes, or a reason.
    async fn column(
        &self,
        table: Table,
        stored_as: &[TableColumns],
        context: Arc<TaskContext>,
    ) -> Result<std::result::Result<u64, String>> {
        let unpin = |keep: &HashSet<_>| -> u64 {
            let columns = stored_as.iter();
            columns.map(|columns| self.store.unpin(columns, keep)).sum()
        };
        if self.action == Action::Unpin {
            return Ok(Ok(unpin(&HashSet::new())));
        }
        if self.limit == 0 {
            return Ok(Err(
                "bowtie.cache keeps no columns on this device: SET it to a size".into(),
            ));
        }
        let pieces = table.pieces(self.device.as_ref(), &context).await?;
        if pieces.stored.is_empty() && !pieces.others.is_empty() {
            return Ok(Err("columns of its type stay on the CPU".into()));
        }
        let loader = Loader {
            store: Arc::clone(&self.store),
            scan: self
                .store
                .begin_scan(self.limit, None)
                .pinning(self.pin.clone()),
            device: Arc::clone(&self.device),
            for_scan: Arc::default(),
            context,
            metrics: ReadMetrics::new(&ExecutionPlanMetricsSet::new()),
            upload_time: Time::new(),
        };
        self.store.remove_older(&pieces.files);
        let mut bytes = 0;
        let mut pinned = HashSet::new();
        let mut found_all = pieces.others.is_empty();
        for piece in pieces.stored {
            if !found_all {
                break;
            }
            let (piece, found) = loader.load(piece).await?;
            let nothing = ReadColumns::default();
            let columns = piece.columns(&nothing);
            pinned.extend(columns.iter().filter_map(|column| column.handle()));
            match found {
                Some(found) => bytes += found.hit_bytes + found.sent_bytes,
                None => found_all = false,
            }
        }
        if !found_all {
            // None of it stays pinned.
            unpin(&HashSet::new());
            return Ok(Err(
                match table.files() {
                    None => "there is not enough memory for all of it: raise bowtie.cache, or unpin other columns",
                    Some(_) => {
                        "there is not enough memory for all of it, or its files were written a moment ago or cannot be read: raise bowtie.cache, unpin other columns, or try again"
                    }
                }
                .into(),
            ));
        }
        // What was pinned before rows were inserted is cut in another way.
        unpin(&pinned);
        Ok(Ok(bytes))
    }
}

#[async_trait]
impl Rows for Pinned {
    fn function(&self) -> &'static str {
        self.action.name()
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    async fn rows(&self, session: &dyn Session) -> Result<RecordBatch> {
        let state = state_of(session, self.function())?;
        let (device, rows) = self.run(state).await?;
        let bytes = rows
            .iter()
            .map(|row| row.outcome.as_ref().copied().unwrap_or(0));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![device; rows.len()])),
            Arc::new(
                rows.iter()
                    .map(|row| Some(row.column.as_str()))
                    .collect::<StringArray>(),
            ),
            Arc::new(bytes.map(Some).collect::<UInt64Array>()),
            Arc::new(
                rows.iter()
                    .map(|row| row.outcome.as_ref().err())
                    .collect::<StringArray>(),
            ),
        ];
        Ok(RecordBatch::try_new(schema(), columns)?)
    }
}
