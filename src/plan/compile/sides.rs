//! Which side of a join an expression reads.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, new_null_array};
use arrow::datatypes::Schema;
use datafusion::common::JoinSide;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::comparison::Comparison;
use crate::ir::side::Side;
use crate::plan::compile::early_value::evaluated;
use crate::plan::compile::permitted::{Use, permits};

/// `left expression OP right expression`, each over the columns of its side.
pub(crate) type ExprComparison = (Arc<dyn PhysicalExpr>, Comparison, Arc<dyn PhysicalExpr>);

/// An expression over the filter's columns as text that names their sides.
pub(crate) fn sides_named(filter: &JoinFilter, expr: &Arc<dyn PhysicalExpr>) -> Result<String> {
    let named = map_columns(expr, |column| {
        let side = match filter.column_indices()[column.index()].side {
            JoinSide::Right => Side::Right,
            _ => Side::Left,
        };
        Column::new(&format!("{side}.{}", column.name()), column.index())
    })?;
    Ok(fmt_sql(named.as_ref()).to_string())
}

/// An expression of one side as text that names the side.
pub(crate) fn named(side: Side, expr: &Arc<dyn PhysicalExpr>) -> Result<String> {
    let named = map_columns(expr, |column| {
        Column::new(&format!("{side}.{}", column.name()), column.index())
    })?;
    Ok(fmt_sql(named.as_ref()).to_string())
}

/// The one side whose columns `expr` reads; `None` when it reads none or both, or has a lambda, which is bound to the filter's columns.
pub(crate) fn side_of(filter: &JoinFilter, expr: &Arc<dyn PhysicalExpr>) -> Option<Side> {
    if !permits(expr, Use::Rebind) {
        return None;
    }
    let mut sides = collect_columns(expr)
        .into_iter()
        .map(|column| filter.column_indices()[column.index()].side)
        .collect::<Vec<_>>();
    sides.dedup();
    match sides.as_slice() {
        [] => None,
        [first, rest @ ..] if rest.iter().all(|side| side == first) => match first {
            JoinSide::Left => Some(Side::Left),
            JoinSide::Right => Some(Side::Right),
            JoinSide::None => None,
        },
        _ => None,
    }
}

/// An expression over the filter's schema, over the columns of its one side instead.
pub(crate) fn on_side(
    filter: &JoinFilter,
    expr: &Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>> {
    map_columns(expr, |column| {
        Column::new(column.name(), filter.column_indices()[column.index()].index)
    })
}

/// `expr` with the index of every column `by` higher.
pub(crate) fn shift_columns(
    expr: &Arc<dyn PhysicalExpr>,
    by: usize,
) -> Result<Arc<dyn PhysicalExpr>> {
    map_columns(expr, |column| {
        Column::new(column.name(), column.index() + by)
    })
}

/// `expr` with every column replaced.
pub(crate) fn map_columns(
    expr: &Arc<dyn PhysicalExpr>,
    map: impl Fn(&Column) -> Column,
) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expr)
        .transform(|node| {
            Ok(match node.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(Arc::new(map(column)) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(node),
            })
        })
        .data()
}

/// Whether two expressions are the same, whatever the names of their columns.
pub(crate) fn is_same(a: &Arc<dyn PhysicalExpr>, b: &Arc<dyn PhysicalExpr>) -> bool {
    let unnamed = |expr| map_columns(expr, |column| Column::new("", column.index()));
    matches!((unnamed(a), unnamed(b)), (Ok(a), Ok(b)) if a.eq(&b))
}

/// Whether `expr` is NULL where all its columns are, as far as is known while planning.
pub(crate) fn is_null_of_nulls(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let fields = schema.fields().iter();
    let nullable: Vec<_> = fields
        .map(|f| f.as_ref().clone().with_nullable(true))
        .collect();
    let columns = nullable
        .iter()
        .map(|f| new_null_array(f.data_type(), 1))
        .collect();
    let row = RecordBatch::try_new(Arc::new(Schema::new(nullable)), columns)?;
    let value = evaluated(expr, &row).and_then(|value| value.into_array(1).ok());
    Ok(value.is_some_and(|value| value.logical_null_count() == 1))
}
