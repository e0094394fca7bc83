//! Expressions over the columns of both sides, as a device evaluates them on pairs.

use std::sync::Arc;

use datafusion::common::JoinSide;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};

use crate::plan::compile::sides::map_columns;
use crate::spec::join::SideInput;
use crate::spec::partners::{KeyValue, PartnerKey};

type Expr = Arc<dyn PhysicalExpr>;

/// The expression of a column of a side.
pub(super) fn expression(input: &SideInput, column: usize) -> Expr {
    match column.checked_sub(input.plan_columns()) {
        Some(evaluated) => Arc::clone(&input.expressions[evaluated]),
        None => Arc::new(Column::new(input.plan().field(column).name(), column)),
    }
}

/// A key of the order, to be evaluated on pairs.
pub(super) fn partner_key(
    key: &PhysicalSortExpr,
    left: &SideInput,
    right: &SideInput,
) -> Result<PartnerKey> {
    Ok(PartnerKey {
        value: KeyValue::OfColumns(over_pairs(&key.expr, left, right)?),
        options: key.options,
    })
}

/// An expression over the columns of the unprojected join, to be evaluated on pairs.
pub(crate) fn over_pairs(expr: &Expr, left: &SideInput, right: &SideInput) -> Result<JoinFilter> {
    let of_left = left.plan_columns();
    let columns: Vec<usize> = {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns
    };
    let mut fields = vec![];
    let mut indices = vec![];
    for column in &columns {
        let (side, input, index) = match column.checked_sub(of_left) {
            None => (JoinSide::Left, left, *column),
            Some(index) => (JoinSide::Right, right, index),
        };
        fields.push(input.plan().field(index).clone().with_nullable(true));
        indices.push(ColumnIndex { index, side });
    }
    let expr = map_columns(expr, |column| {
        let at = columns.partition_point(|known| *known < column.index());
        Column::new(column.name(), at)
    })?;
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    Ok(JoinFilter::new(expr, indices, schema))
}
