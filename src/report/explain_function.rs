//! `SELECT * FROM bowtie_explain('<query>')`: a summary of a query's plan, and every node with where it runs and why.

use std::sync::Arc;

use arrow::array::{Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Expr;

use crate::plan::cache::rows_table::{Rows, RowsTable};
use crate::plan::cache::state_of::state_of;
use crate::report::explain::explain_plan;
use crate::report::plan_report::{NodeReport, PlanReport};

/// The table function. Its one argument is a query, as a string.
#[derive(Debug)]
pub(crate) struct ExplainFunction;

impl ExplainFunction {
    pub(crate) const NAME: &'static str = "bowtie_explain";
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
                    "bowtie_explain takes one argument, the query as a string: bowtie_explain($$ SELECT … $$)".into(),
                ));
            }
        };
        Ok(RowsTable::of(Explained { query }))
    }
}

/// The report of one query's plan. The query is planned when the table is scanned, under the options of that time.
#[derive(Debug)]
struct Explained {
    query: String,
}

fn schema() -> SchemaRef {
    let text = |name: &str, nullable: bool| Field::new(name, DataType::Utf8, nullable);
    let place = |name: &str| Field::new(name, DataType::UInt32, true);
    let count = |name: &str| Field::new(name, DataType::UInt64, true);
    let time = |name: &str| Field::new(name, DataType::Float64, true);
    Arc::new(Schema::new(vec![
        place("id"),
        place("depth"),
        text("node", false),
        text("runs_on", true),
        text("decision", false),
        text("replaces", true),
        text("strategy", true),
        text("detail", false),
        count("left_rows"),
        count("right_rows"),
        count("output_rows"),
        count("resident_bytes"),
        count("bytes_up"),
        count("bytes_down"),
        time("device_ms"),
        time("host_ms"),
        text("reason", false),
    ]))
}

/// A column of the table: of the summary, and of each node.
fn column<'a, T>(
    report: &'a PlanReport,
    of_summary: Option<T>,
    of_node: impl Fn(&'a NodeReport) -> Option<T>,
) -> Vec<Option<T>> {
    let nodes = report.nodes.iter().map(of_node);
    std::iter::once(of_summary).chain(nodes).collect()
}

impl PlanReport {
    /// The table that `bowtie_explain` returns: a row for the summary, and one for each node.
    ///
    /// # Errors
    /// None that users meet: the columns have one length.
    pub fn to_batch(&self) -> Result<RecordBatch> {
        let summary = &self.summary;
        let (line, columns) = (summary.to_string(), self);
        let verdicts: Vec<String> = self.nodes.iter().map(|n| n.verdict.to_string()).collect();
        let text = |first, of: fn(&NodeReport) -> Option<&str>| {
            StringArray::from(column(columns, first, of))
        };
        let place = |of: fn(&NodeReport) -> usize| {
            let place = |node| u32::try_from(of(node)).ok();
            UInt32Array::from(column(columns, None, place))
        };
        let count = |first, of: fn(&NodeReport) -> Option<u64>| {
            UInt64Array::from(column(columns, first, of))
        };
        let time = |first, of: fn(&NodeReport) -> Option<f64>| {
            Float64Array::from(column(columns, first, of))
        };
        let decisions = std::iter::once("summary").chain(verdicts.iter().map(String::as_str));
        Ok(RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(place(|n| n.id)),
                Arc::new(place(|n| n.depth)),
                Arc::new(text(Some("plan"), |n| Some(&n.node))),
                Arc::new(text(summary.device.as_deref(), |n| Some(&n.runs_on))),
                Arc::new(StringArray::from_iter_values(decisions)),
                Arc::new(text(None, |n| n.replaces.as_deref())),
                Arc::new(text(None, |n| n.strategy.as_deref())),
                Arc::new(text(Some(""), |n| Some(&n.detail))),
                Arc::new(count(None, |n| n.left_rows)),
                Arc::new(count(None, |n| n.right_rows)),
                Arc::new(count(None, |n| n.output_rows)),
                Arc::new(count(None, |n| n.resident_bytes)),
                Arc::new(count(summary.upload_bytes, |n| n.bytes_up)),
                Arc::new(count(summary.download_bytes, |n| n.bytes_down)),
                Arc::new(time(summary.estimated_ms, |n| n.device_ms)),
                Arc::new(time(summary.datafusion_ms, |n| n.host_ms)),
                Arc::new(text(Some(&line), |n| Some(&n.reason))),
            ],
        )?)
    }
}

#[async_trait]
impl Rows for Explained {
    fn function(&self) -> &'static str {
        ExplainFunction::NAME
    }

    fn schema(&self) -> SchemaRef {
        schema()
    }

    async fn rows(&self, session: &dyn Session) -> Result<RecordBatch> {
        let state = state_of(session, self.function())?;
        let plan = state.create_logical_plan(&self.query).await?;
        explain_plan(state, &plan).await?.to_batch()
    }
}
