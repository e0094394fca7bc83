//! [`ProjectSetValues`]: the similarity of two lists inside an aggregate above a join becomes a column of a projection between them, from
//! where the [join gives it](crate::plan::set_values).
//!
//! ```text
//! Aggregate [a.id, max(array_jaccard(a.t, b.t))]        Aggregate [a.id, max(value)]
//!   Join                                          ─►      Projection [a.id, array_jaccard(a.t, b.t) AS value]
//!                                                           Join
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::functions::set_function::SetFunction;
use crate::options::{BowtieOptions, Offload};
use crate::plan::entrance::{Entrance, keeps_columns};

/// Stands behind the rule that moves filters into joins, and before the one that drops columns that nobody reads.
#[derive(Debug, Default)]
pub(crate) struct ProjectSetValues;

impl ProjectSetValues {
    pub(crate) const NAME: &'static str = "bowtie_project_set_values";
}

impl OptimizerRule for ProjectSetValues {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let options = BowtieOptions::of(&config.options());
        let entrance = Entrance {
            rule: Self::NAME,
            options: &options,
        };
        let projected = match &plan {
            LogicalPlan::Aggregate(aggregate)
                if options.offload != Offload::Off && is_join(&aggregate.input) =>
            {
                let projected = entrance.enter(|| {
                    let projected = projected(aggregate)?;
                    projected
                        .iter()
                        .try_for_each(|of| keeps_columns(&plan, of))?;
                    Ok(projected)
                })?;
                projected.unwrap_or(None)
            }
            _ => None,
        };
        Ok(match projected {
            Some(projected) => Transformed::yes(projected),
            None => Transformed::no(plan),
        })
    }
}

/// Whether a plan has the columns of a join.
fn is_join(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(_) => true,
        LogicalPlan::Projection(projection) => is_join(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_join(&alias.input),
        _ => false,
    }
}

/// `None` if no aggregate has a function of two columns of lists.
fn projected(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let mut calls: Vec<Expr> = vec![];
    let mut aggregates = vec![];
    for expr in &aggregate.aggr_expr {
        let name = expr.schema_name().to_string();
        let of_values = expr.clone().transform_down(|expr| {
            if !is_of_columns(&expr) {
                return Ok(Transformed::no(expr));
            }
            let known = calls.iter().position(|call| *call == expr);
            let at = known.unwrap_or_else(|| {
                calls.push(expr);
                calls.len() - 1
            });
            let value = Expr::Column(Column::new_unqualified(name_of(at)));
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        })?;
        // It keeps its name.
        aggregates.push(match (of_values.transformed, &of_values.data) {
            (true, Expr::AggregateFunction(_)) => of_values.data.alias(name),
            _ => of_values.data,
        });
    }
    if calls.is_empty() {
        return Ok(None);
    }
    let read = aggregate.group_expr.iter().chain(&aggregates);
    let read: HashSet<&Column> = read.flat_map(Expr::column_refs).collect();
    let columns = aggregate.input.schema().columns().into_iter();
    let columns = columns.filter(|column| read.contains(column));
    let values = calls.into_iter().enumerate();
    let values = values.map(|(at, call)| call.alias(name_of(at)));
    let projected = columns.map(Expr::Column).chain(values).collect();
    let projection = Projection::try_new(projected, Arc::clone(&aggregate.input))?;
    let aggregate = Aggregate::try_new_with_schema(
        Arc::new(LogicalPlan::Projection(projection)),
        aggregate.group_expr.clone(),
        aggregates,
        Arc::clone(&aggregate.schema),
    )?;
    Ok(Some(LogicalPlan::Aggregate(aggregate)))
}

fn name_of(value: usize) -> String {
    format!("__bowtie_set_value_{value}")
}

fn is_of_columns(expr: &Expr) -> bool {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else {
        return false;
    };
    func.inner().is::<SetFunction>() && args.iter().all(|arg| matches!(arg, Expr::Column(_)))
}
