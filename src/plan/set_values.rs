//! [`with_values`]: the overlap or the similarity of two lists that a projection computes above a set join comes out of the join instead, which
//! knows it of every match.
//!
//! ```text
//! Projection [a.id, b.id, array_jaccard(a.t, b.t)]        Projection [a.id, b.id, value]
//!   Join array_jaccard(a.t, b.t) >= 0.8             ─►      ExtendedJoin array_jaccard(a.t, b.t) >= 0.8, with the value
//! ```

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::functions::set_function::SetFunction;
use crate::options::{BowtieOptions, Offload};
use crate::plan::choose::gain::Gain;
use crate::plan::choose::statistics::StatisticsCache;
use crate::plan::extended_join::{ExtendedJoinExec, Original};
use crate::plan::partners::ranked::replaced;
use crate::plan::recognise::join::join_candidate;
use crate::plan::recognise::join_source::{JoinSource, ValueSource};
use crate::plan::recognise::set_predicate;
use crate::plan::recognise::sides::map_columns;
use crate::plan::recognise::source::join_source;
use crate::spec::join::joined_schema;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// The plan in which set joins give the values that projections above them compute.
pub(crate) fn with_values(
    plan: Plan,
    options: &BowtieOptions,
    statistics: &StatisticsCache,
) -> Result<Plan> {
    let replace = |node: Plan| {
        Ok(match valued(&node, options, statistics)? {
            Some(replaced) => Transformed::yes(replaced),
            None => Transformed::no(node),
        })
    };
    plan.transform_down(replace).data()
}

/// A projection above a set join with the values as columns of the join; `None` if it is something else.
fn valued(
    node: &Plan,
    options: &BowtieOptions,
    statistics: &StatisticsCache,
) -> Result<Option<Plan>> {
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else {
        return Ok(None);
    };
    // Most projections have none.
    let calls = |expr: &Expr| -> Result<bool> {
        let mut calls = false;
        expr.apply(|expr| {
            calls |= set_function(expr).is_some();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(calls)
    };
    let exprs = projection.expr().iter().map(|projected| &projected.expr);
    if !exprs
        .clone()
        .map(calls)
        .collect::<Result<Vec<_>>>()?
        .contains(&true)
    {
        return Ok(None);
    }
    // With its sides exchanged a join has a projection of columns above it, and a value that is read twice is computed in one.
    let mut join = projection.input();
    let mut columns: Vec<Expr> = projection
        .expr()
        .iter()
        .map(|of| Arc::clone(&of.expr))
        .collect();
    while let Some(between) = join.downcast_ref::<ProjectionExec>() {
        let computed: Vec<Expr> = between
            .expr()
            .iter()
            .map(|of| Arc::clone(&of.expr))
            .collect();
        let is_moved = |expr: &Expr| expr.is::<Column>() || set_function(expr).is_some();
        let over = columns.iter().map(|expr| replaced(expr, &computed));
        let over: Option<Vec<Expr>> = over.collect();
        let (true, Some(over)) = (computed.iter().all(is_moved), over) else {
            return Ok(None);
        };
        columns = over;
        join = between.input();
    }
    let Some(Ok(source)) = join_source(join) else {
        return Ok(None);
    };
    let Some(filter) = source.filter.as_ref().filter(|_| is_plain(&source)) else {
        return Ok(None);
    };
    let Some((_, set)) = set_predicate::best(filter)? else {
        return Ok(None);
    };

    // Over the columns of both sides.
    let of_left = source.left.schema().fields().len();
    let unprojected = |column: usize| match &source.projection {
        Some(columns) => columns[column],
        None => column,
    };
    let over_sides = |expr: &Expr| {
        map_columns(expr, |column| {
            Column::new(column.name(), unprojected(column.index()))
        })
    };
    let shift = |expr: &Expr, by: usize| {
        map_columns(expr, |column| {
            Column::new(column.name(), column.index() + by)
        })
    };
    let lists = [shift(&set.left, 0)?, shift(&set.right, of_left)?];
    let is_of_lists = |arguments: &[Expr]| {
        let [first, second] = arguments else {
            return false;
        };
        let is = |a: &Expr, b: &Expr| is_same(a, &lists[0]) && is_same(b, &lists[1]);
        is(first, second) || is(second, first)
    };
    let width = of_left + source.right.schema().fields().len();
    let mut values: Vec<ValueSource> = vec![];
    let mut projected: Vec<ProjectionExpr> = vec![];
    for (expr, of) in columns.iter().zip(projection.expr()) {
        let expr = over_sides(expr)?.transform_down(|expr| {
            let Some((function, call)) =
                set_function(&expr).filter(|(_, call)| is_of_lists(call.args()))
            else {
                return Ok(Transformed::no(expr));
            };
            let value = function.value();
            let known = values.iter().position(|known| known.value == value);
            let at = known.unwrap_or_else(|| {
                values.push(ValueSource {
                    value,
                    expr: Arc::clone(&expr),
                    name: format!("bowtie_{}", call.name()),
                });
                values.len() - 1
            });
            let column = Column::new(&values[at].name, width + at);
            Ok(Transformed::new(
                Arc::new(column) as Expr,
                true,
                TreeNodeRecursion::Jump,
            ))
        });
        projected.push(ProjectionExpr {
            expr: expr.data()?,
            alias: of.alias.clone(),
        });
    }
    let mut columns = projected;
    if values.is_empty() {
        return Ok(None);
    }

    // What is read of the join.
    let read = columns
        .iter()
        .flat_map(|column| collect_columns(&column.expr));
    let mut output: Vec<usize> = read.map(|column| column.index()).collect();
    output.sort_unstable();
    output.dedup();
    let sides: Vec<usize> = output
        .iter()
        .copied()
        .filter(|column| *column < width)
        .collect();
    let schema = joined_schema(&source.left, &source.right, source.kind, &sides);
    let mut fields: Vec<Arc<Field>> = schema.fields().to_vec();
    let of_values: Vec<usize> = output
        .iter()
        .filter_map(|column| column.checked_sub(width))
        .collect();
    for value in of_values.iter().map(|value| &values[*value]) {
        fields.push(Arc::new(value.field()));
    }
    let metadata = join.schema().metadata().clone();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    for column in &mut columns {
        column.expr = map_columns(&column.expr, |of| {
            let at = output.partition_point(|known| *known < of.index());
            Column::new(schema.field(at).name(), at)
        })?;
    }

    // DataFusion's own nodes for it.
    let join_schema = join.schema();
    let mut original = vec![];
    for column in &sides {
        let at = (0..join_schema.fields().len()).find(|at| unprojected(*at) == *column);
        let Some(at) = at else {
            return Ok(None);
        };
        let name = join_schema.field(at).name();
        original.push(ProjectionExpr {
            expr: Arc::new(Column::new(name, at)),
            alias: name.clone(),
        });
    }
    for value in &of_values {
        let value = &values[*value];
        let place =
            |column: usize| (0..join_schema.fields().len()).find(|at| unprojected(*at) == column);
        let mut read = collect_columns(&value.expr).into_iter();
        if read.any(|column| place(column.index()).is_none()) {
            return Ok(None);
        }
        let expr = map_columns(&value.expr, |column| {
            Column::new(column.name(), place(column.index()).unwrap_or(0))
        })?;
        original.push(ProjectionExpr {
            expr,
            alias: value.name.clone(),
        });
    }
    let original: Plan = Arc::new(ProjectionExec::try_new(original, Arc::clone(join))?);

    let source = JoinSource {
        projection: Some(output),
        values,
        ..source
    };
    let candidate = join_candidate(Ok(source.clone()), options, statistics);
    let gains = matches!(candidate.gain, Gain::OnAnyDevice) || options.offload == Offload::Force;
    if !gains || !candidate.spec.is_ok_and(|spec| spec.theta.set.is_some()) {
        return Ok(None);
    }
    let original = Original {
        join: Arc::clone(join),
        is_swapped: false,
        above: Some(original),
    };
    let exec = ExtendedJoinExec::new(source, Some(original), schema);
    let projection = ProjectionExec::try_new(columns, Arc::new(exec))?;
    Ok(Some(Arc::new(projection)))
}

/// Whether all of the join's rows come out, with columns of both sides.
fn is_plain(source: &JoinSource) -> bool {
    use datafusion::common::JoinType::{Full, Inner, Left, Right};
    matches!(source.kind, Inner | Left | Right | Full)
        && source.values.is_empty()
        && source.partners.is_none()
        && !source.null_aware
}

fn set_function(expr: &Expr) -> Option<(&SetFunction, &ScalarFunctionExpr)> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    Some((call.fun().inner().downcast_ref::<SetFunction>()?, call))
}

/// Whether two expressions are the same, whatever the names of their columns.
fn is_same(a: &Expr, b: &Expr) -> bool {
    let unnamed = |expr: &Expr| map_columns(expr, |column| Column::new("", column.index()));
    matches!((unnamed(a), unnamed(b)), (Ok(a), Ok(b)) if a.eq(&b))
}
