//! From an aggregation above a join to a [`JoinAggregateSpec`], or the reason why the two are not fused.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal, lit};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::error::Decline;
use crate::ir::side::Side;
#[cfg(test)]
use crate::plan::calls;
use crate::plan::compile::key_types::is_orderable;
use crate::plan::compile::permitted::{Use, permits, seen_through};
use crate::plan::compile::sides::is_null_of_nulls;
use crate::plan::recognise::aggregate_function::{
    function_of, one_if_not_null, sums_in_own_type, where_true,
};
use crate::plan::recognise::refusal::Refusal;
use crate::plan::sources::aggregate_source::{AggregateStage, GroupSource, group_source};
use crate::spec::aggregate::AggregateFunction;
use crate::spec::join::{JoinSpec, Output, SideInput};
use crate::spec::join_aggregate::{AggregateSpec, GroupSide, JoinAggregateSpec};

/// An aggregation that reads a join: its input-side node, the projections between, and the join.
pub(crate) struct AggregateSource<'a> {
    /// The node that the parent sees.
    top: &'a AggregateExec,
    /// The node that reads the join's rows: `top` itself, or the Partial below it.
    bottom: &'a AggregateExec,
    stage: AggregateStage,
    projections: Vec<&'a ProjectionExec>,
    /// The join's.
    inputs: (Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>),
}

/// `None` when `plan` is no aggregation in its final stage.
pub(crate) fn aggregate_source(plan: &Arc<dyn ExecutionPlan>) -> Option<AggregateSource<'_>> {
    let GroupSource { top, bottom, stage } = group_source(plan)?;
    if stage.reads_states() {
        return None;
    }
    let mut projections = vec![];
    let mut join = bottom.input();
    while let Some(projection) = join.downcast_ref::<ProjectionExec>() {
        projections.push(projection);
        join = projection.input();
    }
    let [left, right] = join.children().try_into().ok()?;
    Some(AggregateSource {
        top,
        bottom,
        stage,
        projections,
        inputs: (Arc::clone(left), Arc::clone(right)),
    })
}

/// The fused spec of an aggregation above `join`, whose spec is known.
pub(crate) fn join_aggregate_spec(
    source: &AggregateSource<'_>,
    mut join: JoinSpec,
) -> Result<JoinAggregateSpec, Refusal> {
    #[cfg(test)]
    calls::count(calls::Maker::FusedSpec);
    let preserved = match join.kind {
        JoinType::Inner => None,
        JoinType::Left => Some(Side::Left),
        JoinType::Right => Some(Side::Right),
        other => {
            return Err(Decline(format!("aggregates over a {other} join are not fused")).into());
        }
    };
    if source.top.limit_options().is_some() || source.bottom.limit_options().is_some() {
        return Err(Decline("the aggregation has a limit".into()).into());
    }
    if join.fetch.is_some() {
        return Err(Decline("the join has a limit".into()).into());
    }
    if join.limits_partners() {
        let reason = "each row of the join keeps only some of its partners";
        return Err(Decline(reason.into()).into());
    }
    let group_by = source.bottom.group_expr();
    if group_by.has_grouping_set() || !group_by.is_single() {
        return Err(Decline("grouping sets are not fused".into()).into());
    }

    let mut group_side = GroupSide::Nothing;
    let mut group_columns = vec![];
    let mut group_display = vec![];
    for (expr, name) in group_by.expr() {
        let (side, column) = source.argument(&mut join, expr)?;
        match group_side {
            GroupSide::Side(known) if known != side => {
                return Err(Decline("it groups by columns of both sides".into()).into());
            }
            _ => group_side = GroupSide::Side(side),
        }
        group_columns.push(column);
        group_display.push(name.clone());
    }
    if let (Some(preserved), GroupSide::Side(side)) = (preserved, group_side)
        && preserved != side
    {
        return Err(
            Decline("it groups by the side that the outer join pads with NULLs".into()).into(),
        );
    }

    let mut aggregates = vec![];
    for (aggregate, filter) in source
        .bottom
        .aggr_expr()
        .iter()
        .zip(source.bottom.filter_expr())
    {
        aggregates.push(source.aggregate(&mut join, aggregate, filter.as_ref())?);
    }
    // Counts are cheapest on the probe side, and folds on the build side. Under a test only matches of the probe side's rows are counted, and those that
    // an outer join keeps must be.
    let tested = !join.theta.comparisons.is_empty() || !join.residual.is_empty();
    let probe = match group_side {
        GroupSide::Side(side) => Some(side),
        GroupSide::Nothing => preserved.filter(|_| tested).or_else(|| {
            let mut arguments = aggregates.iter().filter_map(|a| a.argument);
            arguments.next().map(|(side, _)| side)
        }),
    };
    if let Some(probe) = probe
        && join.theta.can_sort(probe.other())
    {
        join.theta.build = probe.other();
    }
    Ok(JoinAggregateSpec {
        group_side,
        group_columns,
        aggregate_display: aggregates
            .iter()
            .map(|a| a.aggregate.name().to_string())
            .collect(),
        aggregates,
        schema: source.top.schema(),
        writes_states: source.stage.writes_states(),
        output_on_device: false,
        group_display,
        join: JoinSpec {
            output: vec![],
            ..join
        },
    })
}

impl AggregateSource<'_> {
    fn aggregate(
        &self,
        join: &mut JoinSpec,
        aggregate: &Arc<AggregateFunctionExpr>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<AggregateSpec, Refusal> {
        let name = aggregate.name();
        use crate::spec::aggregate::AggregateFunction::{Avg, Count, Max, Min, Sum};
        let fused = |function: &_| matches!(function, Count | Sum | Avg | Min | Max);
        let Some(function) = function_of(aggregate).filter(fused) else {
            return Err(Decline(format!(
                "{name} is not fused: only COUNT, SUM, AVG, MIN and MAX are"
            ))
            .into());
        };
        let extreme = matches!(function, AggregateFunction::Min | AggregateFunction::Max);
        if aggregate.is_distinct() && !extreme {
            return Err(Decline(format!(
                "{name} is not fused: DISTINCT needs the join's rows"
            ))
            .into());
        }
        if !aggregate.order_bys().is_empty() {
            return Err(Decline(format!("{name} is not fused: it has an ORDER BY")).into());
        }
        if !aggregate.groups_accumulator_supported() {
            return Err(Decline(format!(
                "{name} is not fused: DataFusion has no grouped accumulator for it"
            ))
            .into());
        }
        let [expr] = aggregate.expressions().try_into().map_err(|_| {
            Decline(format!(
                "{name} is not fused: it does not have exactly one argument"
            ))
        })?;
        let is_star = function == AggregateFunction::Count
            && expr
                .downcast_ref::<Literal>()
                .is_some_and(|l| !l.value().is_null());
        let expr = match filter {
            None => expr,
            // A row that the filter rejects counts as a NULL.
            Some(filter) => {
                let value = match function {
                    _ if is_star => lit(1i64),
                    Count => one_if_not_null(expr)?,
                    _ => expr,
                };
                where_true(filter, value)?
            }
        };
        let argument = match is_star && filter.is_none() {
            true => None,
            false => Some(self.argument(join, &expr)?),
        };
        if argument.is_some() {
            self.check_type(aggregate, function)?;
        }
        Ok(AggregateSpec {
            function,
            argument,
            aggregate: Arc::clone(aggregate),
        })
    }

    /// The side and column that hold `expr`, an expression over the rows that the aggregation reads.
    pub(crate) fn argument(
        &self,
        join: &mut JoinSpec,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<(Side, usize), Refusal> {
        let mut expr = Arc::clone(expr);
        for projection in &self.projections {
            let from: Vec<_> = projection
                .expr()
                .iter()
                .map(|of| Arc::clone(&of.expr))
                .collect();
            let below = seen_through(&expr, &from);
            expr = below.ok_or_else(|| has_lambda(&expr))?;
        }
        if !permits(&expr, Use::Rebind) {
            return Err(has_lambda(&expr).into());
        }
        let shown = fmt_sql(expr.as_ref()).to_string();
        if !permits(&expr, Use::Repeat) {
            return Err(Decline(format!("{shown} is volatile: compute it in a subquery")).into());
        }
        let mut sides = vec![];
        for column in collect_columns(&expr) {
            match join.output.get(column.index()) {
                Some(Output::Column(side, _)) => sides.push(*side),
                _ => {
                    return Err(Decline(format!(
                        "{shown} is not computed from columns of one side"
                    ))
                    .into());
                }
            }
        }
        let side = match sides.first() {
            None => return Err(Decline(format!("{shown} reads no column")).into()),
            Some(first) if sides.iter().all(|side| side == first) => *first,
            Some(_) => return Err(Decline(format!("{shown} mixes columns of both sides")).into()),
        };
        let output = join.output.clone();
        let expr = crate::plan::compile::sides::map_columns(&expr, |column| {
            match output[column.index()] {
                Output::Column(_, index) => Column::new(column.name(), index),
                Output::Mark | Output::Value(_) => column.clone(),
            }
        })?;
        let (input, schema): (&mut SideInput, _) = match side {
            Side::Left => (&mut join.left, self.inputs.0.schema()),
            Side::Right => (&mut join.right, self.inputs.1.schema()),
        };
        // It is also evaluated on rows that the join drops.
        if !permits(&expr, Use::Move(&schema)) {
            return Err(Decline(format!("{shown} might fail on a row that the join drops")).into());
        }
        // Rows that an outer join pads are merged as NULL arguments.
        let pads = match join.kind {
            JoinType::Left => side == Side::Right,
            JoinType::Right => side == Side::Left,
            JoinType::Full => true,
            _ => false,
        };
        if pads && !is_null_of_nulls(&expr, &schema)? {
            return Err(Decline(format!(
                "{shown} is not NULL on a row that the outer join pads with NULLs"
            ))
            .into());
        }
        Ok((side, input.column_of(&expr)?))
    }

    /// A device sums in the argument's own type, so DataFusion's state must have its width.
    fn check_type(
        &self,
        aggregate: &AggregateFunctionExpr,
        function: AggregateFunction,
    ) -> Result<(), Refusal> {
        let argument = aggregate
            .expressions()
            .first()
            .map(|expr| expr.data_type(&self.bottom.input_schema()))
            .transpose()?
            .unwrap_or(DataType::Null);
        let name = aggregate.name();
        match function {
            AggregateFunction::Count => Ok(()),
            AggregateFunction::Min | AggregateFunction::Max => match is_orderable(&argument) {
                true => Ok(()),
                false => Err(
                    Decline(format!("{name} is not fused: values of type {argument} have no order on a device")).into(),
                ),
            },
            _ => match sums_in_own_type(aggregate, &argument)? {
                true => Ok(()),
                false => Err(Decline(format!(
                    "{name} is not fused: DataFusion sums {argument} in another type, so cast its argument"
                ))
                .into()),
            },
        }
    }
}

fn has_lambda(expr: &Arc<dyn PhysicalExpr>) -> Decline {
    let shown = fmt_sql(expr.as_ref());
    Decline(format!("{shown} has a lambda over the rows of the join"))
}
