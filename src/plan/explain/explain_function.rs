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

use crate::plan::cache::state_of::state_of;
use crate::plan::choose::placement::Estimate;
use crate::plan::explain::decision::{Decision, Decisions};
use crate::plan::rule::BowtieRule;

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
            Arc::new(bytes(|e| e.bytes_up)),
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
        planner.create_physical_plan(&logical).await?;
        let batch = to_batch(&decisions.take())?;
        MemTable::try_new(schema(), vec![vec![batch]])?
            .scan(session, projection, filters, limit)
            .await
    }
}
