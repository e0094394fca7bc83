//! [`LateralLimit`]: subqueries that keep the first rows of an order for each row outside, as joins whose rows are numbered.
//!
//! ```sql
//! SELECT … FROM trades t LEFT JOIN LATERAL (SELECT * FROM quotes q WHERE q.sym = t.sym AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1) q ON true
//! SELECT t.*, (SELECT q.bid FROM quotes q WHERE q.sym = t.sym AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1) FROM trades t
//! ```
//!
//! DataFusion 55 has no plan for them. As numbered joins it runs them, and bowtie keeps partners by ranges.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, FetchType, Join, LogicalPlan, LogicalPlanBuilder, Projection, SkipType,
};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::plan::partners::numbered::{FirstPartners, columns_of};

/// Goes behind the rule that simplifies expressions, and before all others of DataFusion: some merge limits and sorts.
#[derive(Debug, Default)]
pub(crate) struct LateralLimit;

impl LateralLimit {
    pub(crate) const NAME: &'static str = "bowtie_lateral_limit";

    /// The rule of DataFusion behind which this one stands.
    pub(crate) const BEHIND: &'static str = "simplify_expressions";
}

impl OptimizerRule for LateralLimit {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        // Without a plan of ours the query has DataFusion's error.
        let rewritten = match &plan {
            LogicalPlan::Join(join) => lateral_join(join, config).unwrap_or(None),
            LogicalPlan::Projection(of) => scalar_subqueries(of, config).unwrap_or(None),
            _ => None,
        };
        Ok(match rewritten {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(plan),
        })
    }
}

/// A lateral join without a condition of its own.
fn lateral_join(join: &Join, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let is_true =
        |filter: &Expr| matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    let is_plain = join.on.is_empty() && join.filter.as_ref().is_none_or(is_true);
    if !is_plain || !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return Ok(None);
    }
    let right = match join.right.as_ref() {
        LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
        other => other,
    };
    let LogicalPlan::Subquery(subquery) = right else {
        return Ok(None);
    };
    let first = first_rows(&join.left, &subquery.subquery, join.join_type, config)?;
    let Some(FirstRows { plan, columns }) = first else {
        return Ok(None);
    };
    let schema = join.right.schema();
    let right = columns.into_iter().zip(schema.iter());
    let right = right.map(|(column, (qualifier, field))| {
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns = columns_of(join.left.schema()).chain(right);
    LogicalPlanBuilder::from(plan)
        .project(columns)?
        .build()
        .map(Some)
}

/// Scalar subqueries in a projection, each of which has one row at most by a limit.
fn scalar_subqueries(
    projection: &Projection,
    config: &dyn OptimizerConfig,
) -> Result<Option<LogicalPlan>> {
    let mut input = Arc::clone(&projection.input);
    let mut is_rewritten = false;
    let mut columns = vec![];
    let names = NamePreserver::new_for_projection();
    for expr in &projection.expr {
        let name = names.save(expr);
        let rewritten = expr.clone().transform_down(|expr| {
            let Expr::ScalarSubquery(subquery) = &expr else {
                return Ok(Transformed::no(expr));
            };
            match first_rows(&input, &subquery.subquery, JoinType::Left, config)? {
                Some(mut first)
                    if first.columns.len() == 1
                        && limit_of(&subquery.subquery)? == Some((0, 1)) =>
                {
                    input = Arc::new(first.plan);
                    is_rewritten = true;
                    let column = first.columns.remove(0);
                    Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
                }
                _ => Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump)),
            }
        });
        columns.push(name.restore(rewritten.data()?));
    }
    match is_rewritten {
        true => Projection::try_new(columns, input).map(|p| Some(LogicalPlan::Projection(p))),
        false => Ok(None),
    }
}

/// The first rows of a subquery for each row outside.
struct FirstRows {
    /// It has the columns of the rows outside, too.
    plan: LogicalPlan,
    /// The columns of the subquery, over `plan`.
    columns: Vec<Expr>,
}

/// Rows skipped and kept by a limit of constants; `None` if `plan` is something else.
fn limit_of(plan: &LogicalPlan) -> Result<Option<(usize, usize)>> {
    let LogicalPlan::Limit(limit) = plan else {
        return Ok(None);
    };
    Ok(match (limit.get_skip_type()?, limit.get_fetch_type()?) {
        (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) => Some((skip, fetch)),
        _ => None,
    })
}

/// `None` if `subquery` is no ordered query with a limit that reads columns outside in its WHERE alone.
fn first_rows(
    outside: &Arc<LogicalPlan>,
    subquery: &LogicalPlan,
    kind: JoinType,
    config: &dyn OptimizerConfig,
) -> Result<Option<FirstRows>> {
    let (Some((skip, fetch)), LogicalPlan::Limit(limit)) = (limit_of(subquery)?, subquery) else {
        return Ok(None);
    };
    // The one row of NULLs of a row outside without any is no row to skip.
    if fetch == 0 || (skip > 0 && kind == JoinType::Left) {
        return Ok(None);
    }
    // Columns that only the order needs are projected away above it.
    let mut projections = vec![];
    let mut node = &limit.input;
    while let LogicalPlan::Projection(projection) = node.as_ref() {
        projections.push(projection);
        node = &projection.input;
    }
    let LogicalPlan::Sort(sort) = node.as_ref() else {
        return Ok(None);
    };
    if sort.fetch.is_some() || !is_correlated_by_filters(&sort.input)? {
        return Ok(None);
    }
    let mut pull_up = PullUpCorrelatedExpr::new();
    let inside = sort.input.as_ref().clone().rewrite(&mut pull_up).data()?;
    if !pull_up.can_pull_up || pull_up.pull_up_having_expr.is_some() {
        return Ok(None);
    }
    let Some(condition) = conjunction(pull_up.join_filters) else {
        return Ok(None);
    };
    let schema = Arc::clone(inside.schema());
    let of_outside = outside.schema();
    let is_inside = |column: &Column| schema.has_column(column);
    let of_one_side = |column: &&Column| is_inside(column) != of_outside.has_column(column);
    let in_order = sort.expr.iter().flat_map(|key| key.expr.column_refs());
    let mut columns = condition.column_refs().into_iter().chain(in_order);
    if !columns.all(|column| of_one_side(&column)) {
        return Ok(None);
    }

    let wanted = FirstPartners {
        condition,
        order: sort.expr.clone(),
        kind,
        skip: skip as u64,
        fetch: fetch as u64,
    };
    let outside = outside.as_ref().clone();
    let (plan, inside) = wanted.of(outside, inside, config.alias_generator())?;

    // What the projections make of the columns inside.
    let of_subquery = sort.input.schema().columns();
    let of_subquery = of_subquery.iter().map(|column| {
        let at = schema.maybe_index_of_column(column)?;
        inside.get(at).cloned()
    });
    let Some(mut columns) = of_subquery.collect::<Option<Vec<Expr>>>() else {
        return Ok(None);
    };
    for projection in projections.into_iter().rev() {
        let of_projection = projection.expr.iter().map(|expr| {
            let column = expr.clone().unalias();
            let Expr::Column(column) = column else {
                return None;
            };
            let at = projection.input.schema().maybe_index_of_column(&column)?;
            columns.get(at).cloned()
        });
        match of_projection.collect::<Option<Vec<_>>>() {
            Some(projected) => columns = projected,
            None => return Ok(None),
        }
    }
    Ok(Some(FirstRows { plan, columns }))
}

/// Whether some filters hold all references to columns outside, with nothing but projections above them, and names if these are of a table: below
/// other names a column may have that of one outside.
fn is_correlated_by_filters(plan: &LogicalPlan) -> Result<bool> {
    let mut node = plan;
    let mut is_renamed = false;
    loop {
        node = match node {
            LogicalPlan::Filter(filter) => {
                if is_renamed && filter.predicate.contains_outer() {
                    return Ok(false);
                }
                &filter.input
            }
            LogicalPlan::Projection(projection) => {
                if projection.expr.iter().any(Expr::contains_outer) {
                    return Ok(false);
                }
                &projection.input
            }
            LogicalPlan::SubqueryAlias(alias) => {
                is_renamed = true;
                &alias.input
            }
            other => {
                let mut refers = false;
                other.apply_with_subqueries(|node| {
                    refers |= node.contains_outer_reference();
                    Ok(match refers {
                        true => TreeNodeRecursion::Stop,
                        false => TreeNodeRecursion::Continue,
                    })
                })?;
                return Ok(!refers);
            }
        };
    }
}
