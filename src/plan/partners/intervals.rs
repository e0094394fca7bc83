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
    pub(super) fn of(
        &self,
        left: LogicalPlan,
        right: LogicalPlan,
        names: &AliasGenerator,
    ) -> Result<(LogicalPlan, Vec<Expr>, Expr)> {
        let [outside, candidates] = ["__bowtie_interval", "__bowtie_candidate"]
            .map(|name| TableReference::bare(names.next(name)));
        let of = |table: &TableReference, name: &str| {
            Expr::Column(Column::new(Some(table.clone()), name))
        };
        let key_names: Vec<String> = (0..self.by.len()).map(|i| format!("key_{i}")).collect();
        let keys_and_ends = self
            .by
            .iter()
            .zip(&key_names)
            .map(|([key, _], name)| key.clone().alias(name))
            .chain([
                self.left.start.clone().alias("start"),
                self.left.stop.clone().alias("stop"),
            ]);
        let distinct = LogicalPlanBuilder::from(left.clone())
            .filter(self.left.are_ordered())?
            .project(keys_and_ends.collect::<Vec<_>>())?
            .distinct()?
            .alias(outside.clone())?
            .build()?;
        let right = LogicalPlanBuilder::from(right)
            .filter(self.right.are_ordered())?
            .build()?;

        let (start, stop) = (of(&outside, "start"), of(&outside, "stop"));
        let partner = |bounds: Vec<Expr>| {
            let keys = self.by.iter().zip(&key_names);
            let keys = keys.map(|([_, key], name)| of(&outside, name).eq(key.clone()));
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
            wanted.of(distinct.clone(), right.clone(), names)
        };
        let around = LogicalPlanBuilder::from(distinct.clone())
            .join_on(right.clone(), JoinType::Inner, [partner(around)])?
            .build()?;
        let branches = [
            first(ahead, begins, true, ends)?,
            first(behind, ends, false, begins)?,
            (around, columns_of(right.schema()).collect()),
        ];

        // In each branch the right side's columns have other names.
        let width = right.schema().fields().len();
        let column_names: Vec<String> = (0..width).map(|i| format!("column_{i}")).collect();
        let of_row = || {
            key_names
                .iter()
                .map(String::as_str)
                .chain(["start", "stop"])
        };
        let mut union: Option<LogicalPlanBuilder> = None;
        for (plan, columns) in branches {
            let columns = columns.into_iter().zip(&column_names);
            let columns = columns.map(|(column, name)| column.alias(name));
            let projected = of_row().map(|name| of(&outside, name).alias(name));
            let projected = projected.chain(columns).collect::<Vec<_>>();
            let branch = LogicalPlanBuilder::from(plan).project(projected)?;
            union = Some(match union {
                Some(union) => union.union(branch.build()?)?,
                None => branch,
            });
        }
        let union = union.unwrap_or_else(|| LogicalPlanBuilder::empty(false));
        let unqualified = |name: &str| Expr::Column(Column::new_unqualified(name));
        let of_union: Vec<Expr> = column_names.iter().map(|name| unqualified(name)).collect();
        let of_candidate = |expr: &Expr| renamed(expr, &right, &of_union);
        let (begins, ends) = (of_candidate(begins)?, of_candidate(ends)?);
        let (start, stop) = (unqualified("start"), unqualified("stop"));
        let ahead_by = (self.gap)(&begins, &stop)?;
        let behind_by = (self.gap)(&start, &ends)?;
        let distance = when(begins.clone().gt(stop.clone()), ahead_by)
            .when(ends.clone().lt(start.clone()), behind_by)
            .otherwise(self.nothing.clone())?;
        let candidate = of_row()
            .map(unqualified)
            .chain(of_union.iter().cloned())
            .chain([
                begins.alias("begins"),
                ends.alias("ends"),
                distance.alias("distance"),
            ]);
        let order = ["distance", "begins", "ends"];
        let order = order.map(|name| SortExpr::new(unqualified(name), true, false));
        let place = row_number()
            .partition_by(of_row().map(unqualified).collect())
            .order_by(order.to_vec())
            .build()?;
        let nearest = union
            .project(candidate.collect::<Vec<_>>())?
            .window([place.alias("place")])?
            .filter(unqualified("place").lt_eq(lit(self.k)))?
            .alias(candidates.clone())?
            .build()?;

        let equal = |left: &Expr, name: &str| left.clone().eq(of(&candidates, name));
        let on = self
            .by
            .iter()
            .zip(&key_names)
            .map(|([key, _], name)| equal(key, name))
            .chain([
                equal(&self.left.start, "start"),
                equal(&self.left.stop, "stop"),
            ]);
        let plan = LogicalPlanBuilder::from(left)
            .join_on(nearest, JoinType::Left, on.collect::<Vec<_>>())?
            .build()?;
        let columns = column_names.iter().map(|name| of(&candidates, name));
        Ok((plan, columns.collect(), of(&candidates, "distance")))
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
