//! `SELECT * FROM bowtie_pin('table')`: puts columns of a table on the device and keeps them there; `bowtie_unpin` lets them go.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking_task;
use crate::exec::memory::step::{self, OnRefusal};
use crate::exec::scan::memory_table::{MemoryTable, Piece};
use crate::exec::scan::node::{cache_bytes, pieces_of};
use crate::options::BowtieOptions;
use crate::plan::cache::state_of::state_of;
use crate::runtime::planned_device::PlannedDevice;
use crate::runtime::session_devices::SessionDevices;
use crate::store::column_key::ColumnHandle;
use crate::store::column_store::{ColumnStore, WantedColumn as _};

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
        Ok(Arc::new(PinTable {
            devices: Arc::clone(&self.devices),
            action: self.action,
            table,
            columns,
        }))
    }
}

/// What became of each column. It happens when the table is scanned.
#[derive(Debug)]
struct PinTable {
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

impl PinTable {
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
        };
        let mut rows = vec![];
        for column in chosen {
            let plan = provider.scan(state, Some(&vec![column]), &[], None).await?;
            let name = provider.schema().field(column).name().clone();
            let outcome = match MemoryTable::of(&plan) {
                None => Err(
                    "the table is not in memory, and its rows are uploaded for each query".into(),
                ),
                Some(table) => {
                    let context = state.task_ctx();
                    let (pieces, kept) = pieces_of(&table, work.device.as_ref(), &context)?;
                    work.column(table, pieces, kept).await?
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
}

impl Work {
    /// Pins or unpins a column. Returns its bytes, or a reason.
    async fn column(
        &self,
        table: MemoryTable,
        pieces: Vec<Piece>,
        kept: bool,
    ) -> Result<std::result::Result<u64, String>> {
        let arrays = table.arrays();
        if self.action == Action::Unpin {
            return Ok(Ok(self.store.unpin(&arrays, &HashSet::new())));
        }
        if self.limit == 0 {
            return Ok(Err(
                "bowtie.cache keeps no columns on this device: SET it to a size".into(),
            ));
        }
        if !kept {
            return Ok(Err("columns of its type stay on the CPU".into()));
        }
        let scan = self.store.begin_scan(self.limit).pinning();
        let (store, device) = (Arc::clone(&self.store), Arc::clone(&self.device));
        let loaded = blocking_task(move || {
            let on = device.as_ref();
            let mut bytes = 0;
            let mut pinned = HashSet::new();
            for piece in &pieces {
                let columns = table.columns(piece);
                pinned.extend(columns.iter().filter_map(|of| ColumnHandle::of(of.parts())));
                let load = |_: &step::Step<'_>| store.load(on, &scan, &columns);
                let Some(found) = step::shared(on, OnRefusal::Defer, load)? else {
                    // None of it stays pinned.
                    store.unpin(&arrays, &HashSet::new());
                    return Ok(None);
                };
                bytes += found.hit_bytes + found.sent_bytes;
            }
            // What was pinned before rows were inserted is cut in another way.
            store.unpin(&arrays, &pinned);
            Ok(Some(bytes))
        });
        let none = "there is no room for all of it: raise bowtie.cache, or unpin other columns";
        Ok(loaded.await?.ok_or_else(|| none.into()))
    }
}

#[async_trait]
impl TableProvider for PinTable {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = state_of(session, self.action.name())?;
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
        let batch = RecordBatch::try_new(schema(), columns)?;
        MemTable::try_new(schema(), vec![vec![batch]])?
            .scan(session, projection, filters, limit)
            .await
    }
}
