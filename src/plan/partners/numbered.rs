//! [`FirstPartners`]: a join whose rows are numbered, as a logical plan that DataFusion runs, too.

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, TableReference};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr, col, lit,
};

/// The first partners of each row outside, in an order.
pub(super) struct FirstPartners {
    /// Which rows inside are partners. References to columns outside may be marked as such.
    pub(super) condition: Expr,
    pub(super) order: Vec<SortExpr>,
    /// Inner or left.
    pub(super) kind: JoinType,
    /// The first partners that are left out; 0 of a left join.
    pub(super) skip: u64,
    /// The number of the last partner that is kept, counted from 1, as a UInt64 without columns.
    pub(super) last: Expr,
}

impl FirstPartners {
    /// The plan, and its column for each one of `inside`. It has the columns of `outside` as they are. No column of the condition and of
    /// the order may be of both.
    pub(super) fn of(
        self,
        outside: LogicalPlan,
        inside: LogicalPlan,
        names: &AliasGenerator,
    ) -> Result<(LogicalPlan, Vec<Expr>)> {
        // The columns inside get names of their own, so that a table may be joined with itself.
        let table = TableReference::bare(names.next("__bowtie_partner"));
        let [row, place, prefix] =
            ["__bowtie_row", "__bowtie_place", "__bowtie_column"].map(|name| names.next(name));
        let schema = inside.schema().clone();
        let renamed = columns_of(&schema).enumerate();
        let of_number = |i: usize| format!("{prefix}_{i}");
        let renamed: Vec<Expr> = renamed
            .map(|(i, column)| column.alias(of_number(i)))
            .collect();
        let of_inside = |i: usize| Expr::Column(Column::new(Some(table.clone()), of_number(i)));
        let inside = LogicalPlanBuilder::from(inside)
            .project(renamed)?
            .alias(table.clone())?
            .build()?;
        let over_join = |expr: Expr| {
            let renamed = expr.transform(|expr| {
                Ok(match expr {
                    Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
                    Expr::Column(column) => match schema.maybe_index_of_column(&column) {
                        Some(i) => Transformed::yes(of_inside(i)),
                        None => Transformed::no(Expr::Column(column)),
                    },
                    other => Transformed::no(other),
                })
            });
            renamed.data()
        };

        let numbered = LogicalPlanBuilder::from(outside).window([row_number().alias(&row)])?;
        let order = self.order.into_iter().map(|key| {
            let expr = over_join(key.expr)?;
            Ok(SortExpr { expr, ..key })
        });
        let number = row_number()
            .partition_by(vec![col(Column::new_unqualified(row))])
            .order_by(order.collect::<Result<_>>()?)
            .build()?;
        let place_name = Column::new_unqualified(&place);
        let kept = Expr::Column(place_name.clone()).lt_eq(self.last);
        let kept = match self.skip {
            0 => kept,
            skip => kept.and(Expr::Column(place_name).gt(lit(skip))),
        };
        let columns = (0..schema.fields().len()).map(of_inside).collect();
        let plan = numbered
            .join_on(inside, self.kind, [over_join(self.condition)?])?
            .window([number.alias(&place)])?
            .filter(kept)?
            .build()?;
        Ok((plan, columns))
    }
}

pub(super) fn columns_of(schema: &DFSchema) -> impl Iterator<Item = Expr> {
    let columns = schema.iter();
    columns.map(|(qualifier, field)| Expr::Column(Column::new(qualifier.cloned(), field.name())))
}
