//! [`LateralLimit`]: subqueries that keep the first rows of an order for each row outside, as joins whose rows are numbered.
//!
//! ```sql
//! SELECT … FROM trades t LEFT JOIN LATERAL (SELECT * FROM quotes q WHERE q.sym = t.sym AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1) q ON true
//! SELECT t.*, (SELECT q.bid FROM quotes q WHERE q.sym = t.sym AND q.ts <= t.ts ORDER BY q.ts DESC LIMIT 1) FROM trades t
//! ```
//!
//! DataFusion 55 has no plan for them. As numbered joins it runs them, and bowtie keeps partners by ranges.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::{greatest, least};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, FetchType, Join, LogicalPlan, LogicalPlanBuilder, Projection, SkipType, SortExpr, cast,
    lit,
};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::options::BowtieOptions;
use crate::plan::entrance::Entrance;
use crate::plan::partners::numbered::{FirstPartners, columns_of};

/// Goes behind the rule that simplifies expressions, and before all others of DataFusion: some merge limits and sorts.
#[derive(Debug, Default)]
pub(crate) struct LateralLimit;

impl LateralLimit {
    pub(crate) const NAME: &'static str = "bowtie_lateral_limit";
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
        let entrance = Entrance {
            rule: Self::NAME,
            options: &BowtieOptions::of(&config.options()),
        };
        // Without a plan of ours the query has DataFusion's error.
        let rewritten = entrance.enter(|| {
            Ok(match &plan {
                LogicalPlan::Join(join) => lateral_join(join, config).unwrap_or(None),
                LogicalPlan::Projection(of) => scalar_subqueries(of, config).unwrap_or(None),
                _ => None,
            })
        })?;
        let rewritten = rewritten.unwrap_or(None);
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
                        && matches!(
                            limit_of(&subquery.subquery)?,
                            Some((0, Fetch::Rows(1)) | (_, Fetch::Rows(0)))
                        ) =>
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

/// How many rows a limit keeps.
enum Fetch {
    Rows(usize),
    /// As many as a parameter of a prepared statement says, whose value is not there yet: a UInt64.
    Parameter(Expr),
}

/// Rows skipped and kept by a limit of constants, or of a parameter; `None` if `plan` is something else.
fn limit_of(plan: &LogicalPlan) -> Result<Option<(usize, Fetch)>> {
    let LogicalPlan::Limit(limit) = plan else {
        return Ok(None);
    };
    let kept = match (limit.get_skip_type()?, limit.get_fetch_type()?) {
        (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) => {
            Some((skip, Fetch::Rows(fetch)))
        }
        (SkipType::Literal(0), FetchType::UnsupportedExpr) => {
            let fetch = limit.fetch.as_deref().filter(|fetch| is_parameter(fetch));
            fetch.map(|fetch| {
                // NULL is no limit. Of `least` it is left out, in which the parameter stands once: what stands twice is computed apart, and
                // its value would not be known as a constant then.
                let fetch = cast(fetch.clone(), DataType::UInt64);
                (0, Fetch::Parameter(least(vec![fetch, lit(u64::MAX)])))
            })
        }
        _ => None,
    };
    Ok(kept)
}

fn is_parameter(expr: &Expr) -> bool {
    match expr {
        Expr::Placeholder(_) => true,
        Expr::Cast(cast) => is_parameter(&cast.expr),
        _ => false,
    }
}

/// What a limit of no rows leaves: each row outside with NULLs, or no row of an inner join.
fn no_rows(outside: &LogicalPlan, subquery: &LogicalPlan, kind: JoinType) -> Result<FirstRows> {
    let outside = LogicalPlanBuilder::from(outside.clone());
    let plan = match kind {
        JoinType::Left => outside,
        _ => outside.filter(lit(false))?,
    };
    let columns = subquery.schema().fields().iter();
    let columns = columns.map(|field| ScalarValue::try_new_null(field.data_type()).map(lit));
    Ok(FirstRows {
        plan: plan.build()?,
        columns: columns.collect::<Result<_>>()?,
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
    if matches!(fetch, Fetch::Rows(0)) {
        return no_rows(outside, subquery, kind).map(Some);
    }
    // The one row of NULLs of a row outside without any is no row to skip.
    if skip > 0 && kind == JoinType::Left {
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
    let named = Named::of(&sort.input, config.alias_generator())?;
    let mut pull_up = PullUpCorrelatedExpr::new();
    let inside = named.plan.clone().rewrite(&mut pull_up).data()?;
    if !pull_up.can_pull_up || pull_up.pull_up_having_expr.is_some() {
        return Ok(None);
    }
    let Some(mut condition) = conjunction(pull_up.join_filters) else {
        return Ok(None);
    };
    let order = sort.expr.iter().map(|key| {
        let expr = named.renamed(&key.expr)?;
        Ok(SortExpr {
            expr,
            ..key.clone()
        })
    });
    let order = order.collect::<Result<Vec<_>>>()?;
    let schema = Arc::clone(inside.schema());
    let of_outside = outside.schema();
    let are_of_one_side = {
        let of_one_side =
            |column: &Column| schema.has_column(column) != of_outside.has_column(column);
        let in_order = order.iter().flat_map(|key| key.expr.column_refs());
        let mut columns = condition.column_refs().into_iter().chain(in_order);
        columns.all(of_one_side)
    };
    if !are_of_one_side {
        return Ok(None);
    }

    let last = match fetch {
        Fetch::Rows(rows) => lit((skip as u64).saturating_add(rows as u64)),
        Fetch::Parameter(rows) => {
            // With 0 no row has a partner, and of a left join one row of NULLs.
            condition = condition.and(rows.clone().gt(lit(0_u64)));
            greatest(vec![rows, lit(1_u64)])
        }
    };
    let wanted = FirstPartners {
        condition,
        order,
        kind,
        skip: skip as u64,
        last,
    };
    let outside = outside.as_ref().clone();
    let (plan, inside) = wanted.of(outside, inside, config.alias_generator())?;

    // What the projections make of the columns inside.
    let of_subquery = sort.input.schema().columns();
    let of_subquery = of_subquery.iter().map(|column| {
        let at = schema.maybe_index_of_column(named.name(column))?;
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

/// An ordered query, in which no computed column has the name of a column below it: those that its WHERE compares with columns outside are pulled up
/// beside it, and one name would be that of both.
struct Named {
    plan: LogicalPlan,
    /// Columns that have another name in `plan`.
    names: Vec<(Column, Column)>,
}

impl Named {
    fn of(plan: &LogicalPlan, aliases: &AliasGenerator) -> Result<Self> {
        let mut names = vec![];
        let LogicalPlan::Projection(projection) = plan else {
            let plan = plan.clone();
            return Ok(Self { plan, names });
        };
        let below = projection.input.schema();
        let is_below = |name: &str| below.fields().iter().any(|field| field.name() == name);
        let columns = projection.expr.iter().zip(projection.schema.columns());
        let columns = columns.map(|(expr, column)| {
            if matches!(expr, Expr::Column(_)) || !is_below(&column.name) {
                return expr.clone();
            }
            let name = aliases.next("__bowtie_value");
            names.push((column, Column::new_unqualified(name.clone())));
            expr.clone().unalias().alias(name)
        });
        let columns = columns.collect();
        let plan = Projection::try_new(columns, Arc::clone(&projection.input))?;
        Ok(Self {
            plan: LogicalPlan::Projection(plan),
            names,
        })
    }

    /// The name in the plan of a column of the query.
    fn name<'a>(&'a self, column: &'a Column) -> &'a Column {
        let mut names = self.names.iter();
        let renamed = names.find(|(of_query, _)| of_query == column);
        renamed.map_or(column, |(_, name)| name)
    }

    fn renamed(&self, expr: &Expr) -> Result<Expr> {
        let renamed = expr.clone().transform(|expr| {
            Ok(match &expr {
                Expr::Column(column) => {
                    let name = self.name(column).clone();
                    Transformed::yes(Expr::Column(name))
                }
                _ => Transformed::no(expr),
            })
        });
        renamed.data()
    }
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
