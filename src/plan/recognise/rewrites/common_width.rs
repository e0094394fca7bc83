//! Comparisons of one column of integers in several widths, brought to the widest one: of `q.ts <= t.ts AND q.ts >= t.ts - 5` DataFusion widens
//! only the second one, for its difference. With one column on a side, one sorted order serves both.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;

use crate::ir::side::Side;
use crate::plan::compile::sides::ExprComparison;

type Expr = Arc<dyn PhysicalExpr>;

/// Widens both operands of comparisons whose operand on a side is one that another comparison widens. `schemas`: of the left and the right
/// side.
pub(crate) fn to_common_width(
    comparisons: &mut [ExprComparison],
    schemas: [&SchemaRef; 2],
) -> Result<()> {
    for side in [Side::Left, Side::Right] {
        let schema = schemas[match side {
            Side::Left => 0,
            Side::Right => 1,
        }];
        for i in 0..comparisons.len() {
            let narrow = Arc::clone(operand(&comparisons[i], side));
            let others = comparisons.iter().enumerate().filter(|(j, _)| *j != i);
            let widths =
                others.filter_map(|(_, other)| width_of(&narrow, operand(other, side), schema));
            let Some(wide) = widths.max_by_key(DataType::primitive_width) else {
                continue;
            };
            let (left, op, right) = comparisons[i].clone();
            let widen = |expr: Expr| Arc::new(CastExpr::new(expr, wide.clone(), None)) as Expr;
            comparisons[i] = (widen(left), op, widen(right));
        }
    }
    Ok(())
}

fn operand(comparison: &ExprComparison, side: Side) -> &Expr {
    match side {
        Side::Left => &comparison.0,
        Side::Right => &comparison.2,
    }
}

/// The type to which `wide` casts `narrow`, if it is a wider integer.
fn width_of(narrow: &Expr, wide: &Expr, schema: &SchemaRef) -> Option<DataType> {
    let cast = wide.downcast_ref::<CastExpr>()?;
    let from = narrow.data_type(schema).ok()?;
    let to = cast.cast_type();
    let is_wider = from.is_signed_integer()
        && to.is_signed_integer()
        && from.primitive_width() < to.primitive_width();
    (is_wider && cast.expr() == narrow).then(|| to.clone())
}
