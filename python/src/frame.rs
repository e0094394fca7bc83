//! A query that runs when its rows are asked for.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Schema, UInt64Type};
use datafusion::common::plan_err;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::error::Result;
use datafusion::logical_expr::select_expr::SelectExpr;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::physical_plan::collect;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::sqlparser::ast::OrderByExpr;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema, PyTable};

use crate::error::to_python;
use crate::head::Head;
use crate::reports::{self, Explained, Profiled};
use crate::runtime::wait;
use crate::stream::{Batches, Pull, PullReader, with_schema};
use crate::values;

/// A logical plan and its session. Options that are set later hold for it, too.
#[pyclass(frozen, module = "datafusion_bowtie._lib")]
pub struct Frame {
    context: SessionContext,
    plan: LogicalPlan,
    /// The text that it is the plan of, if any.
    sql: Option<Arc<str>>,
}

#[pymethods]
impl Frame {
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(Arc::clone(self.arrow_schema()))
    }

    /// Names and types of the columns.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        let fields = self.arrow_schema().fields().iter();
        fields
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect()
    }

    /// All rows, as an object with `__arrow_c_stream__` that may be read several times.
    fn collect(&self, py: Python<'_>) -> PyResult<PyTable> {
        let frame = self.frame();
        let (batches, schema) = wait(py, async move {
            let context = Arc::new(frame.task_ctx());
            let plan = frame.create_physical_plan().await?;
            let schema = plan.schema();
            let batches = collect(plan, context).await?;
            let batches: Vec<RecordBatch> = batches
                .into_iter()
                .map(|batch| with_schema(batch, &schema))
                .collect::<Result<_>>()?;
            Ok((batches, schema))
        })?;
        PyTable::try_new(batches, schema)
    }

    fn batches(&self, py: Python<'_>) -> PyResult<Batches> {
        Ok(Batches(self.pull(py)?))
    }

    /// Plans the query now; it runs while the stream is read.
    #[pyo3(signature = (requested_schema))]
    fn stream<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reader = PyRecordBatchReader::new(Box::new(PullReader(self.pull(py)?)));
        Bound::new(py, reader)?.call_method1("__arrow_c_stream__", (requested_schema,))
    }

    /// All rows as tuples of Python's own types.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let batches = self.pull(py)?;
        let rows = PyList::empty(py);
        while let Some(batch) = batches.next(py)? {
            values::rows(py, batch.columns(), &rows)?;
        }
        Ok(rows)
    }

    /// The first rows as text.
    fn head(&self, py: Python<'_>, rows: usize) -> PyResult<Head> {
        let frame = self.frame();
        wait(py, async move { Head::of(frame, rows).await })
    }

    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        let frame = self.frame();
        wait(py, frame.count())
    }

    fn limit(&self, rows: usize, offset: usize) -> PyResult<Self> {
        self.changed(|frame| frame.limit(offset, Some(rows)))
    }

    fn filter(&self, predicate: &str) -> PyResult<Self> {
        self.changed(|frame| {
            let predicate = frame.parse_sql_expr(predicate)?;
            frame.filter(predicate)
        })
    }

    fn select(&self, expressions: Vec<String>) -> PyResult<Self> {
        self.changed(|frame| {
            let selected = expressions
                .iter()
                .map(|expression| match expression.trim() {
                    "*" => Ok(SelectExpr::Wildcard(Default::default())),
                    expression => frame.parse_sql_expr(expression).map(SelectExpr::Expression),
                });
            let selected: Vec<SelectExpr> = selected.collect::<Result<_>>()?;
            frame.select(selected)
        })
    }

    fn sort(&self, keys: Vec<String>) -> PyResult<Self> {
        self.changed(|frame| {
            let keys: Vec<SortExpr> = keys
                .iter()
                .map(|key| sort_key(&frame, key))
                .collect::<Result<_>>()?;
            frame.sort(keys)
        })
    }

    /// The report as text, and its nodes as rows.
    fn explain(&self, py: Python<'_>) -> PyResult<(String, PyRecordBatch)> {
        let Explained { text, nodes } = wait(py, reports::explain(self.frame()))?;
        Ok((text, PyRecordBatch::new(nodes)))
    }

    /// What `EXPLAIN ANALYZE` shows, as text and as rows: the query runs.
    fn analyze(&self, py: Python<'_>) -> PyResult<(String, PyTable)> {
        let rows = self
            .changed(|frame| frame.explain(false, true))?
            .collect(py)?;
        let plans = rows
            .batches()
            .iter()
            .filter_map(|batch| batch.column_by_name("plan")?.as_string_opt::<i32>());
        let text: Vec<&str> = plans.flat_map(|plans| plans.iter().flatten()).collect();
        Ok((text.join("\n"), rows))
    }

    /// As a page, as JSON, as text.
    fn profile(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        let (frame, sql) = (self.frame(), self.sql.clone());
        let profiled = wait(
            py,
            async move { reports::profile(frame, sql.as_deref()).await },
        );
        let Profiled { html, json, text } = profiled?;
        Ok((html, json, text))
    }

    /// Writes the rows in a format and returns their number.
    #[pyo3(signature = (path, format, options, partition_by, single_file))]
    fn write(
        &self,
        py: Python<'_>,
        path: String,
        format: &str,
        options: HashMap<String, String>,
        partition_by: Vec<String>,
        single_file: Option<bool>,
    ) -> PyResult<u64> {
        let frame = self
            .copy_to(path, format, options, partition_by, single_file)
            .map_err(to_python)?;
        wait(py, async move { Ok(rows_written(&frame.collect().await?)) })
    }
}

impl Frame {
    pub fn new(context: SessionContext, plan: LogicalPlan, sql: Option<Arc<str>>) -> Self {
        Self { context, plan, sql }
    }

    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The query, with the options of now.
    pub fn frame(&self) -> DataFrame {
        DataFrame::new(self.context.state(), self.plan.clone())
    }

    fn arrow_schema(&self) -> &Arc<Schema> {
        self.plan.schema().inner()
    }

    fn changed(&self, change: impl FnOnce(DataFrame) -> Result<DataFrame>) -> PyResult<Self> {
        let frame = change(self.frame()).map_err(to_python)?;
        Ok(Self::new(
            self.context.clone(),
            frame.into_unoptimized_plan(),
            None,
        ))
    }

    fn pull(&self, py: Python<'_>) -> PyResult<Pull> {
        let frame = self.frame();
        let context = Arc::new(frame.task_ctx());
        let plan = wait(py, async move { frame.create_physical_plan().await })?;
        Ok(Pull::new(plan, context))
    }

    fn copy_to(
        &self,
        path: String,
        format: &str,
        options: HashMap<String, String>,
        partition_by: Vec<String>,
        single_file: Option<bool>,
    ) -> Result<DataFrame> {
        let state = self.context.state();
        let Some(factory) = state.get_file_format_factory(format) else {
            return plan_err!(
                "there is no format '{format}': use parquet, csv, json, avro or arrow"
            );
        };
        let mut options: HashMap<String, String> = options
            .into_iter()
            .map(|(name, value)| (format!("format.{name}"), value))
            .collect();
        if let Some(single) = single_file {
            options.insert("single_file_output".into(), single.to_string());
        }
        let plan = LogicalPlanBuilder::copy_to(
            self.plan.clone(),
            path,
            format_as_file_type(factory),
            options,
            partition_by,
        )?;
        Ok(DataFrame::new(state, plan.build()?))
    }
}

/// `expression [ASC | DESC] [NULLS FIRST | NULLS LAST]`. NULL is the greatest value, as in SQL without the latter.
fn sort_key(frame: &DataFrame, key: &str) -> Result<SortExpr> {
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(key)?;
    let parsed: OrderByExpr = parser.parse_order_by_expr()?;
    let rest = parser.next_token();
    if rest.token != Token::EOF {
        return plan_err!("'{key}' is not a key of an order: {rest} follows it");
    }
    let ascending = parsed.options.asc.unwrap_or(true);
    let nulls_first = parsed.options.nulls_first.unwrap_or(!ascending);
    let expression = frame.parse_sql_expr(&parsed.expr.to_string())?;
    Ok(expression.sort(ascending, nulls_first))
}

/// The count that a sink returns.
fn rows_written(batches: &[RecordBatch]) -> u64 {
    let counts = batches
        .iter()
        .filter_map(|batch| batch.columns().first()?.as_primitive_opt::<UInt64Type>());
    counts.flat_map(|counts| counts.values()).sum()
}
