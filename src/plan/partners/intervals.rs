//! The nearest intervals of each interval, as a logical plan: `bowtie_nearest` with a beginning and an end.
//!
//! Of the intervals that begin where an interval begins or later, the nearest ones are those that begin first; of those that end before it
//! begins, those that end last. All others contain its beginning. So candidates come from two joins of which each row keeps the first
//! partners, and from a range join. Partners depend on the keys and the ends alone, so candidates are those of distinct keys and ends, with
//! which the rows are joined by equality at the end.

use datafusion::common::alias::AliasGenerator;
use datafusion::common::{Column, JoinType, TableReference};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr, lit, when,
};

use crate::plan::partners::numbered::{FirstPartners, columns_of};

/// The ends of a side's intervals, of one type.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    pub(super) start: Expr,
    pub(super) stop: Expr,
}

impl Ends {
    /// Whether an interval has both ends, in order.
    fn are_ordered(&self) -> Expr {
        self.start.clone().lt_eq(self.stop.clone())
    }
}

/// What is asked for.
pub(super) struct NearestIntervals<'a> {
    pub(super) left: Ends,
    pub(super) right: Ends,
    pub(super) by: &'a [[Expr; 2]],
    pub(super) k: u64,
    /// The distance of two values, of which the first one is greater.
    pub(super) gap: &'a dyn Fn(&Expr, &Expr) -> Result<Expr>,
    /// That of intervals that overlap.
    pub(super) nothing: Expr,
    /// The earliest (`true`) and the latest value within the greatest distance of a value; `None` without one.
    pub(super) bound: &'a dyn Fn(&Expr, bool) -> Result<Option<Expr>>,
}

impl NearestIntervals<'_> {
    /// The plan: the columns of `left`, as they are, and those of `right` and the distance, which are returned.
    pub(super) fn plan(
        &self,
        left: LogicalPlan,
        right: LogicalPlan,
        names: &AliasGenerator,
    ) -> Result<(LogicalPlan, Vec<Expr>, Expr)> {
        let [outside, candidates] = ["__bowtie_interval", "__bowtie_candidate"]
            .map(|name| TableReference::bare(names.next(name)));
        let outside = self.outside(left.clone(), outside)?;
        let right = LogicalPlanBuilder::from(right)
            .filter(self.right.are_ordered())?
            .build()?;
        let branches = self.branches(&outside, &right, names)?;
        let (union, columns) = outside.union(branches, right.schema().fields().len())?;
        let nearest = self.nearest(&outside, &right, union, &columns, candidates.clone())?;

        let of_candidate = |name: &str| Expr::Column(Column::new(Some(candidates.clone()), name));
        let rows = self.by.iter().map(|[key, _]| key);
        let rows = rows.chain([&self.left.start, &self.left.stop]);
        let on = rows
            .zip(outside.names())
            .map(|(row, name)| row.clone().eq(of_candidate(name)));
        let plan = LogicalPlanBuilder::from(left)
            .join_on(nearest, JoinType::Left, on.collect::<Vec<_>>())?
            .build()?;
        let columns = columns.iter().map(|name| of_candidate(name));
        Ok((plan, columns.collect(), of_candidate("distance")))
    }

    /// The distinct keys and ends of the left side.
    fn outside(&self, left: LogicalPlan, table: TableReference) -> Result<Outside> {
        let key_names: Vec<String> = (0..self.by.len()).map(|i| format!("key_{i}")).collect();
        let keys = self.by.iter().zip(&key_names);
        let columns = keys.map(|([key, _], name)| key.clone().alias(name)).chain([
            self.left.start.clone().alias(START),
            self.left.stop.clone().alias(STOP),
        ]);
        let plan = LogicalPlanBuilder::from(left)
            .filter(self.left.are_ordered())?
            .project(columns.collect::<Vec<_>>())?
            .distinct()?
            .alias(table.clone())?
            .build()?;
        Ok(Outside {
            plan,
            table,
            key_names,
        })
    }

    /// Candidates: the first ones that begin later, the last ones that end before, and all around the beginning. With the columns of `right`.
    fn branches(
        &self,
        outside: &Outside,
        right: &LogicalPlan,
        names: &AliasGenerator,
    ) -> Result<[Candidates; 3]> {
        let (start, stop) = (outside.column(START), outside.column(STOP));
        let partner = |bounds: Vec<Expr>| {
            let keys = self.by.iter().zip(&outside.key_names);
            let keys = keys.map(|([_, key], name)| outside.column(name).eq(key.clone()));
            conjunction(bounds.into_iter().chain(keys)).unwrap_or_else(|| lit(true))
        };
        let Ends {
            start: begins,
            stop: ends,
        } = &self.right;
        let mut ahead = vec![begins.clone().gt_eq(start.clone())];
        if let Some(latest) = (self.bound)(&stop, false)? {
            ahead.push(begins.clone().lt_eq(latest));
        }
        let mut behind = vec![ends.clone().lt(start.clone())];
        if let Some(earliest) = (self.bound)(&start, true)? {
            behind.push(ends.clone().gt_eq(earliest));
        }
        let around = vec![
            begins.clone().lt(start.clone()),
            ends.clone().gt_eq(start.clone()),
        ];
        // Where the first key is the same the other end decides, as in the order of all candidates.
        let first = |bounds: Vec<Expr>, key: &Expr, ascending: bool, other: &Expr| {
            let wanted = FirstPartners {
                condition: partner(bounds),
                order: vec![
                    SortExpr::new(key.clone(), ascending, false),
                    SortExpr::new(other.clone(), true, false),
                ],
                kind: JoinType::Inner,
                skip: 0,
                last: lit(self.k),
            };
            wanted.of(outside.plan.clone(), right.clone(), names)
        };
        let around = LogicalPlanBuilder::from(outside.plan.clone())
            .join_on(right.clone(), JoinType::Inner, [partner(around)])?
            .build()?;
        Ok([
            first(ahead, begins, true, ends)?,
            first(behind, ends, false, begins)?,
            (around, columns_of(right.schema()).collect()),
        ])
    }

    /// The nearest of the candidates in `union`, whose columns of `right` are named `columns`, with their distance.
    fn nearest(
        &self,
        outside: &Outside,
        right: &LogicalPlan,
        union: LogicalPlanBuilder,
        columns: &[String],
        table: TableReference,
    ) -> Result<LogicalPlan> {
        let column = |name: &str| Expr::Column(Column::new_unqualified(name));
        let of_union: Vec<Expr> = columns.iter().map(|name| column(name)).collect();
        let begins = renamed(&self.right.start, right, &of_union)?;
        let ends = renamed(&self.right.stop, right, &of_union)?;
        let (start, stop) = (column(START), column(STOP));
        let ahead_by = (self.gap)(&begins, &stop)?;
        let behind_by = (self.gap)(&start, &ends)?;
        let distance = when(begins.clone().gt(stop), ahead_by)
            .when(ends.clone().lt(start), behind_by)
            .otherwise(self.nothing.clone())?;
        let candidate = outside.names().map(column).chain(of_union).chain([
            begins.alias("begins"),
            ends.alias("ends"),
            distance.alias("distance"),
        ]);
        let order = ["distance", "begins", "ends"];
        let order = order.map(|name| SortExpr::new(column(name), true, false));
        let place = row_number()
            .partition_by(outside.names().map(column).collect())
            .order_by(order.to_vec())
            .build()?;
        union
            .project(candidate.collect::<Vec<_>>())?
            .window([place.alias("place")])?
            .filter(column("place").lt_eq(lit(self.k)))?
            .alias(table)?
            .build()
    }
}

/// Names of the ends of the left side's intervals.
const START: &str = "start";
const STOP: &str = "stop";

/// A plan, and the columns of the right side in it.
type Candidates = (LogicalPlan, Vec<Expr>);

/// The distinct keys and ends of the left side, as a table.
struct Outside {
    plan: LogicalPlan,
    table: TableReference,
    key_names: Vec<String>,
}

impl Outside {
    /// The names of its columns.
    fn names(&self) -> impl Iterator<Item = &str> {
        let keys = self.key_names.iter().map(String::as_str);
        keys.chain([START, STOP])
    }

    fn column(&self, name: &str) -> Expr {
        Expr::Column(Column::new(Some(self.table.clone()), name))
    }

    /// All candidates, and the names of their `width` columns of the right side: in each branch these have other names.
    fn union(
        &self,
        branches: [Candidates; 3],
        width: usize,
    ) -> Result<(LogicalPlanBuilder, Vec<String>)> {
        let column_names: Vec<String> = (0..width).map(|i| format!("column_{i}")).collect();
        let mut union: Option<LogicalPlanBuilder> = None;
        for (plan, columns) in branches {
            let columns = columns.into_iter().zip(&column_names);
            let columns = columns.map(|(column, name)| column.alias(name));
            let projected = self.names().map(|name| self.column(name).alias(name));
            let projected = projected.chain(columns).collect::<Vec<_>>();
            let branch = LogicalPlanBuilder::from(plan).project(projected)?;
            union = Some(match union {
                Some(union) => union.union(branch.build()?)?,
                None => branch,
            });
        }
        let union = union.unwrap_or_else(|| LogicalPlanBuilder::empty(false));
        Ok((union, column_names))
    }
}

/// `expr` over columns of `right`, with those in `columns` in their place.
fn renamed(expr: &Expr, right: &LogicalPlan, columns: &[Expr]) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
    expr.clone()
        .transform(|expr| {
            let at = match &expr {
                Expr::Column(column) => right.schema().maybe_index_of_column(column),
                _ => None,
            };
            Ok(match at {
                Some(at) => Transformed::yes(columns[at].clone()),
                None => Transformed::no(expr),
            })
        })
        .data()
}
