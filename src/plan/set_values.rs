//! [`with_values`]: the overlap or the similarity of two lists that a projection computes above a join comes out of the join instead. A set join
//! knows it of every match; any other join encodes each list once, not once a pair.
//!
//! ```text
//! Projection [a.id, b.id, array_jaccard(a.t, b.t)]        Projection [a.id, b.id, value]
//!   Join array_jaccard(a.t, b.t) >= 0.8             ─►      ExtendedJoin array_jaccard(a.t, b.t) >= 0.8, with the value
//! ```

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::options::{BowtieOptions, Offload};
use crate::plan::compile::permitted::merged;
use crate::plan::compile::sides::map_columns;
use crate::plan::recognise::gain::Gain;
use crate::plan::recognise::join::join_candidate;
use crate::plan::recognise::set_predicate;
use crate::plan::sources::extended_join::{ExtendedJoinExec, Original};
use crate::plan::sources::join_nodes::join_source;
use crate::plan::sources::join_source::{JoinSource, ValueSource};
use crate::plan::sources::set_value::{SetCall, set_function};
use crate::plan::statistics::statistics_cache::StatisticsCache;
use crate::spec::join::joined_schema;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// The plan in which joins give the values of sets that projections above them compute.
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

/// A projection above a join with the values as columns of the join; `None` if it is something else.
///
/// The steps: find the join below, take the calls out of the expressions, name the columns that are read, make the nodes.
fn valued(
    node: &Plan,
    options: &BowtieOptions,
    statistics: &StatisticsCache,
) -> Result<Option<Plan>> {
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else {
        return Ok(None);
    };
    // Most projections have none.
    if !calls_set_functions(projection)? {
        return Ok(None);
    }
    let Some((join, mut columns)) = over_join(projection) else {
        return Ok(None);
    };
    let Some(Ok(source)) = join_source(join) else {
        return Ok(None);
    };
    if !is_plain(&source) || (source.partners.is_some() && !runs_on_device_only(join)) {
        return Ok(None);
    }
    let values = take_values(&source, &mut columns)?;
    if values.is_empty() {
        return Ok(None);
    }
    let read = ReadColumns::of(&source, &columns);
    let schema = read.schema(join, &source, &values);
    for column in &mut columns {
        column.expr = map_columns(&column.expr, |of| {
            let at = read.output.partition_point(|known| *known < of.index());
            Column::new(schema.field(at).name(), at)
        })?;
    }

    let nodes = original(join, &source, &read.sides, &read.values, &values)?;
    let has_own = !runs_on_device_only(join);
    if has_own && nodes.is_none() {
        return Ok(None);
    }
    let above = nodes.as_ref().and_then(|nodes| nodes.above.as_ref());
    let instead = match (instead_of(join), above) {
        (Some(instead), Some(above)) => {
            let inputs = vec![Arc::clone(instead)];
            Some(replace_children_if_necessary(Arc::clone(above), inputs)?)
        }
        _ => None,
    };
    let source = JoinSource {
        projection: Some(read.output),
        values,
        ..source
    };
    let candidate = join_candidate(Ok(source.clone()), options, statistics);
    let gains = matches!(candidate.gain, Gain::OnAnyDevice) || options.offload == Offload::Force;
    if !gains || candidate.spec.is_err() {
        return Ok(None);
    }
    let exec = ExtendedJoinExec::new(source, nodes.filter(|_| has_own), schema);
    let exec = match instead {
        Some(instead) => exec.with_instead(instead),
        None => exec,
    };
    let projection = ProjectionExec::try_new(columns, Arc::new(exec))?;
    Ok(Some(Arc::new(projection)))
}

/// Whether an expression calls a function of two lists.
fn calls_set_functions(projection: &ProjectionExec) -> Result<bool> {
    let mut calls = false;
    for projected in projection.expr() {
        projected.expr.apply(|expr| {
            calls |= set_function(expr).is_some();
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(calls)
}

/// The join below a projection, and the projection's columns over it. With its sides exchanged a join has a projection of columns above it,
/// and a value that is read twice is computed in one. `None` where something else is between.
fn over_join(projection: &ProjectionExec) -> Option<(&Plan, Vec<ProjectionExpr>)> {
    let exprs = |of: &ProjectionExec| -> Vec<Expr> {
        of.expr().iter().map(|of| Arc::clone(&of.expr)).collect()
    };
    let (mut join, mut columns) = (projection.input(), exprs(projection));
    while let Some(between) = join.downcast_ref::<ProjectionExec>() {
        let computed = exprs(between);
        let is_moved = |expr: &Expr| expr.is::<Column>() || set_function(expr).is_some();
        columns = merged(&columns, &computed).filter(|_| computed.iter().all(is_moved))?;
        join = between.input();
    }
    let columns = columns.into_iter().zip(projection.expr());
    let columns = columns.map(|(expr, of)| ProjectionExpr {
        expr,
        alias: of.alias.clone(),
    });
    Some((join, columns.collect()))
}

/// The values that the join can give. In `columns`, which were over the join's output, columns of both sides and of the values take their
/// place.
fn take_values(source: &JoinSource, columns: &mut [ProjectionExpr]) -> Result<Vec<ValueSource>> {
    let schemas = [source.left.schema(), source.right.schema()];
    let [of_left, of_right] = schemas.each_ref().map(|schema| schema.fields().len());
    let mut lists = match &source.filter {
        Some(filter) => set_predicate::best(filter)?.map(|(_, set)| [set.left, set.right]),
        None => None,
    };
    let mut values: Vec<ValueSource> = vec![];
    for column in columns {
        let over_sides = map_columns(&column.expr, |column| {
            Column::new(column.name(), unprojected(source, column.index()))
        })?;
        let taken = over_sides.transform_down(|expr| {
            let Some(call) = SetCall::of(&expr, of_left)? else {
                return Ok(Transformed::no(expr));
            };
            // Those of the predicate, or else the first ones.
            let is_known = match &lists {
                Some([left, right]) => call.has_lists([left, right]),
                None => call.is_supported([&schemas[0], &schemas[1]])?,
            };
            let of_sides = [schemas[0].as_ref(), schemas[1].as_ref()];
            if !is_known || !call.is_null_of_padded(source.kind, of_sides)? {
                return Ok(Transformed::no(expr));
            }
            lists = Some(call.lists.clone());
            let known = values
                .iter()
                .position(|known| known.call.value == call.value);
            let at = known.unwrap_or_else(|| {
                values.push(ValueSource {
                    name: format!("bowtie_array_{}", call.value.short_name()),
                    call,
                    expr: Arc::clone(&expr),
                });
                values.len() - 1
            });
            let column = Column::new(&values[at].name, of_left + of_right + at);
            Ok(Transformed::new(
                Arc::new(column) as Expr,
                true,
                TreeNodeRecursion::Jump,
            ))
        });
        column.expr = taken.data()?;
    }
    Ok(values)
}

/// The columns of both sides and of the values that are read above the join.
struct ReadColumns {
    /// Ascending, among the columns of both sides and then the values.
    output: Vec<usize>,
    /// Those of the sides.
    sides: Vec<usize>,
    /// Those of the values, by their number.
    values: Vec<usize>,
}

impl ReadColumns {
    fn of(source: &JoinSource, columns: &[ProjectionExpr]) -> Self {
        let [left, right] = [&source.left, &source.right].map(|side| side.schema().fields().len());
        let read = columns
            .iter()
            .flat_map(|column| collect_columns(&column.expr));
        let mut output: Vec<usize> = read.map(|column| column.index()).collect();
        output.sort_unstable();
        output.dedup();
        let (sides, values) = output.iter().partition(|column| **column < left + right);
        let values: Vec<usize> = values;
        Self {
            sides,
            values: values.iter().map(|value| value - left - right).collect(),
            output,
        }
    }

    fn schema(&self, join: &Plan, source: &JoinSource, values: &[ValueSource]) -> SchemaRef {
        let schema = joined_schema(&source.left, &source.right, source.kind, &self.sides);
        let mut fields: Vec<Arc<Field>> = schema.fields().to_vec();
        let of_values = self.values.iter().map(|value| values[*value].field());
        fields.extend(of_values.map(Arc::new));
        let metadata = join.schema().metadata().clone();
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }
}

/// A column of a join's output, among the columns of both sides.
fn unprojected(source: &JoinSource, column: usize) -> usize {
    match &source.projection {
        Some(columns) => columns[column],
        None => column,
    }
}

/// Whether all of the join's rows come out, with columns of both sides.
fn is_plain(source: &JoinSource) -> bool {
    use datafusion::common::JoinType::{Full, Inner, Left, Right};
    matches!(source.kind, Inner | Left | Right | Full)
        && source.values.is_empty()
        && !source.null_aware
}

fn runs_on_device_only(join: &Plan) -> bool {
    let extended = join.downcast_ref::<ExtendedJoinExec>();
    extended.is_some_and(ExtendedJoinExec::runs_on_device_only)
}

/// The plan of DataFusion in place of a join that only a device runs.
fn instead_of(join: &Plan) -> Option<&Plan> {
    join.downcast_ref::<ExtendedJoinExec>()?.instead()
}

/// DataFusion's own nodes for columns of both sides and some values; `None` if the join does not output what they are computed from.
fn original(
    join: &Plan,
    source: &JoinSource,
    sides: &[usize],
    of_values: &[usize],
    values: &[ValueSource],
) -> Result<Option<Original>> {
    let schema = join.schema();
    let place =
        |column: usize| (0..schema.fields().len()).find(|at| unprojected(source, *at) == column);
    let mut columns = vec![];
    for column in sides {
        let Some(at) = place(*column) else {
            return Ok(None);
        };
        let name = schema.field(at).name();
        columns.push(ProjectionExpr {
            expr: Arc::new(Column::new(name, at)),
            alias: name.clone(),
        });
    }
    for value in of_values.iter().map(|value| &values[*value]) {
        let mut read = collect_columns(&value.expr).into_iter();
        if read.any(|column| place(column.index()).is_none()) {
            return Ok(None);
        }
        let expr = map_columns(&value.expr, |column| {
            Column::new(column.name(), place(column.index()).unwrap_or(0))
        })?;
        columns.push(ProjectionExpr {
            expr,
            alias: value.name.clone(),
        });
    }
    Ok(Some(Original {
        join: Arc::clone(join),
        is_swapped: false,
        above: Some(Arc::new(ProjectionExec::try_new(
            columns,
            Arc::clone(join),
        )?)),
    }))
}
