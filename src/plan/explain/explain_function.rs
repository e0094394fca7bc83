//! `SELECT * FROM bowtie_explain('<query>')`: each join and aggregate of a query with what was decided on it, and why.

use std::sync::Arc;

use arrow::array::{Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::exec::node::DeviceNode;
use crate::exec::scan::node::ScanOperator;
use crate::exec::scan::table::Table;
use crate::plan::cache::state_of::state_of;
use crate::plan::choose::placement::Estimate;
use crate::plan::explain::decision::{Decision, Decisions, StoredShare};
use crate::plan::rule::BowtieRule;
use crate::runtime::process::BowtieRuntime;

/// The table function. Its one argument is a query, as a string.
#[derive(Debug)]
pub(crate) struct ExplainFunction {
    rule: Arc<BowtieRule>,
}

impl ExplainFunction {
    pub(crate) const NAME: &'static str = "bowtie_explain";

    pub(crate) fn new(rule: Arc<BowtieRule>) -> Self {
        Self { rule }
    }
}

impl TableFunctionImpl for ExplainFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let query = match args.exprs() {
            [
                Expr::Literal(
                    ScalarValue::Utf8(Some(query)) | ScalarValue::Utf8View(Some(query)),
                    _,
                ),
            ] => query.clone(),
            _ => {
                return Err(DataFusionError::Plan(
                    "bowtie_explain takes one argument, the query as a string: bowtie_explain('SELECT …')".into(),
                ));
            }
        };
        Ok(Arc::new(ExplainTable {
            rule: Arc::clone(&self.rule),
            query,
        }))
    }
}

/// The decisions on one query. The query is planned when the table is scanned, under the options of that time.
#[derive(Debug)]
struct ExplainTable {
    rule: Arc<BowtieRule>,
    query: String,
}

impl ExplainTable {
    /// Adds the scans on the device, in the order of the plan.
    fn add_scans(&self, plan: &Arc<dyn ExecutionPlan>, decisions: &mut Vec<Decision>) {
        if let Some((node, scan)) = DeviceNode::find::<ScanOperator>(plan) {
            let stored = stored_share(self.rule.runtime(), node.device_name(), &scan.table);
            decisions.push(Decision::of_scan(&scan.table, stored));
        }
        for input in plan.children() {
            self.add_scans(input, decisions);
        }
    }
}

/// What a device's store has of a table's columns.
fn stored_share(runtime: &BowtieRuntime, device: &str, table: &Table) -> StoredShare {
    let stores = runtime.stores().into_iter();
    let mut of_device = stores.filter(|(name, _)| name == device);
    let (resident, values) = of_device
        .next()
        .map_or((0, 0), |(_, store)| store.share_of(&table.stored_as()));
    let rows = table.statistics().num_rows;
    let rows = rows.get_value().copied().unwrap_or_default();
    let all = (rows * table.schema().fields().len()) as u64;
    let bytes = table.bytes().unwrap_or_default();
    let missing = all.saturating_sub(values) as u128 * u128::from(bytes);
    StoredShare {
        resident,
        missing: missing.checked_div(all.into()).unwrap_or_default() as u64,
    }
}

fn schema() -> SchemaRef {
    let text = |name: &str, nullable: bool| Field::new(name, DataType::Utf8, nullable);
    let rows = |name: &str| Field::new(name, DataType::UInt64, true);
    let time = |name: &str| Field::new(name, DataType::Float64, true);
    Arc::new(Schema::new(vec![
        text("node", false),
        text("decision", false),
        text("strategy", true),
        text("detail", false),
        rows("left_rows"),
        rows("right_rows"),
        rows("output_rows"),
        rows("resident_bytes"),
        rows("bytes_up"),
        rows("bytes_down"),
        time("device_ms"),
        time("host_ms"),
        text("reason", false),
    ]))
}

fn to_batch(decisions: &[Decision]) -> Result<RecordBatch> {
    let text = |of: fn(&Decision) -> Option<&str>| StringArray::from_iter(decisions.iter().map(of));
    let rows = |of: fn(&Decision) -> Option<u64>| UInt64Array::from_iter(decisions.iter().map(of));
    let times =
        |of: fn(&Decision) -> Option<f64>| Float64Array::from_iter(decisions.iter().map(of));
    let bytes = |of: fn(&Estimate) -> u64| {
        let estimates = decisions.iter().map(|d| d.estimate.as_ref().map(of));
        UInt64Array::from_iter(estimates)
    };
    Ok(RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(text(|d| Some(&d.node))),
            Arc::new(text(|d| {
                Some(if d.offloaded { "offloaded" } else { "declined" })
            })),
            Arc::new(text(|d| d.strategy.as_deref())),
            Arc::new(text(|d| Some(&d.detail))),
            Arc::new(rows(|d| d.left_rows)),
            Arc::new(rows(|d| d.right_rows)),
            Arc::new(rows(|d| d.estimate?.rows)),
            Arc::new(rows(|d| Some(d.stored?.resident))),
            Arc::new(rows(|d| {
                let sent = d.stored.map(|stored| stored.missing);
                sent.or(d.estimate.as_ref().map(|estimate| estimate.bytes_up))
            })),
            Arc::new(bytes(|e| e.bytes_down)),
            Arc::new(times(|d| Some(d.estimate?.device_ms))),
            Arc::new(times(|d| Some(d.estimate?.host_ms))),
            Arc::new(text(|d| Some(&d.reason))),
        ],
    )?)
}

#[async_trait]
impl TableProvider for ExplainTable {
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
        let state = state_of(session, ExplainFunction::NAME)?;
        let decisions = Decisions::wanted();
        let recording = Arc::new(self.rule.recording(decisions.clone()));
        let rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = state
            .physical_optimizers()
            .iter()
            .map(|rule| match rule.name() {
                BowtieRule::NAME => Arc::clone(&recording) as _,
                _ => Arc::clone(rule),
            })
            .collect();
        let planner = SessionStateBuilder::new_from_existing(state.clone())
            .with_physical_optimizer_rules(rules)
            .build();
        let logical = planner.create_logical_plan(&self.query).await?;
        let plan = planner.create_physical_plan(&logical).await?;
        let mut decisions = decisions.take();
        self.add_scans(&plan, &mut decisions);
        let batch = to_batch(&decisions)?;
        MemTable::try_new(schema(), vec![vec![batch]])?
            .scan(session, projection, filters, limit)
            .await
    }
}
