//! How far values reach, as statistics say.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::functions::ranges::numbers;
use crate::ir::side::Side;
use crate::plan::compile::early_value::evaluated;
use crate::plan::compile::permitted::seen_through;
use crate::plan::sources::join_source::JoinSource;
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::spec::guard::Guard;

type Expr = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// An expression for the least and the greatest values of all columns, as numbers; `None` where one of them is unknown.
pub(crate) fn extremes(expr: &Expr, plan: &Plan, statistics: &StatisticsCache) -> Option<[f64; 2]> {
    let (expr, plan) = origin(expr, plan)?;
    match scan_of(plan) {
        Some(config) => {
            let Scanned { expr, table, .. } = scanned_by(&expr, config)?;
            ends_of(&expr, &table, &config.statistics())
        }
        None => ends_of(&expr, &plan.schema(), &statistics.statistics(plan)),
    }
}

/// An expression over the columns of a table's files.
pub(crate) struct Scanned<'a> {
    pub(crate) expr: Expr,
    pub(crate) table: SchemaRef,
    pub(crate) config: &'a FileScanConfig,
}

/// An expression over the rows of a plan, if these are rows of files.
pub(crate) fn scanned<'a>(expr: &Expr, plan: &'a Plan) -> Option<Scanned<'a>> {
    let (expr, plan) = origin(expr, plan)?;
    scanned_by(&expr, scan_of(plan)?)
}

/// The same below the projections of a plan, of which statistics of computed columns are not kept, and below nodes that have rows of their inputs.
fn origin<'a>(expr: &Expr, plan: &'a Plan) -> Option<(Expr, &'a Plan)> {
    let [input] = plan.children()[..] else {
        return Some((Arc::clone(expr), plan));
    };
    match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => {
            let expr = projected(expr, projection.projection_expr())?;
            origin(&expr, input)
        }
        None if has_rows_of_input(plan) => origin(expr, input),
        None => Some((Arc::clone(expr), plan)),
    }
}

/// Whether all rows of a node are rows of its input.
fn has_rows_of_input(plan: &Plan) -> bool {
    plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CooperativeExec>()
        || plan
            .downcast_ref::<FilterExec>()
            .is_some_and(|filter| filter.projection().is_none())
}

fn scan_of(plan: &Plan) -> Option<&FileScanConfig> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    source.downcast_ref::<FileScanConfig>()
}

/// An expression over what a scan makes of the columns of its table.
fn scanned_by<'a>(expr: &Expr, config: &'a FileScanConfig) -> Option<Scanned<'a>> {
    let files = config.file_source();
    Some(Scanned {
        expr: projected(expr, files.projection()?)?,
        table: Arc::clone(files.table_schema().table_schema()),
        config,
    })
}

/// An expression over the columns of a projection, over those of its input.
fn projected(expr: &Expr, projection: &ProjectionExprs) -> Option<Expr> {
    let made = projection.iter().map(|made| Arc::clone(&made.expr));
    seen_through(expr, &made.collect::<Vec<_>>())
}

/// An expression for the least and the greatest values that are known of the columns of a schema.
pub(crate) fn ends_of(expr: &Expr, schema: &SchemaRef, known: &Statistics) -> Option<[f64; 2]> {
    let ends = numbers_of(expr, schema, known).ok()?;
    ends.filter(|[one, other]| one.is_finite() && other.is_finite())
}

fn numbers_of(expr: &Expr, schema: &SchemaRef, known: &Statistics) -> Result<Option<[f64; 2]>> {
    let columns = schema.fields().iter().enumerate().map(|(i, field)| {
        let of_column = known.column_statistics.get(i);
        let ends = of_column.and_then(|column| {
            Some([column.min_value.get_value()?, column.max_value.get_value()?])
        });
        match ends {
            Some(ends) if ends.iter().all(|end| end.data_type() == *field.data_type()) => {
                ScalarValue::iter_to_array(ends.into_iter().cloned())
            }
            _ => Ok(new_null_array(field.data_type(), 2)),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    let fields = schema.fields().iter();
    let fields: Vec<_> = fields
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(2));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
    let Some(values) = evaluated(expr, &batch) else {
        return Ok(None);
    };
    let values = numbers(&values.into_array(2)?)?;
    Ok((values.null_count() == 0).then(|| [values.value(0), values.value(1)]))
}

/// Whether comparisons under these guards hold for all pairs that match, as exact statistics say.
pub(crate) fn guards_hold(guards: &[Guard], source: &JoinSource) -> bool {
    let statistics = StatisticsCache::default();
    guards.iter().all(|guard| match guard {
        Guard::NoOverflow { .. } => {
            let holds = guard.holds(|side, column| {
                let plan = match side {
                    Side::Left => &source.left,
                    Side::Right => &source.right,
                };
                exact_ends(&statistics, plan, column).ok_or(())
            });
            holds.unwrap_or(false)
        }
        // Statistics of floats do not tell whether one is NaN.
        Guard::Finite(_) | Guard::NotNull(_) => false,
    })
}

/// The least and the greatest value of a column.
fn exact_ends(statistics: &StatisticsCache, plan: &Plan, column: usize) -> Option<[ArrayRef; 1]> {
    let known = statistics.statistics(plan);
    let known = known.column_statistics.get(column)?;
    let (Precision::Exact(least), Precision::Exact(greatest)) =
        (&known.min_value, &known.max_value)
    else {
        return None;
    };
    let arrays = [least.to_array().ok()?, greatest.to_array().ok()?];
    let ends = concat(&[arrays[0].as_ref(), arrays[1].as_ref()]).ok()?;
    (ends.null_count() == 0).then_some([ends])
}
