//! DataFusion's comparisons as those of a device.

use datafusion::logical_expr::Operator;

use crate::ir::comparison::Comparison;

/// `None` for operators that compare nothing, or that compare NULLs.
pub(crate) fn comparison_of(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Lt => Comparison::Lt,
        Operator::LtEq => Comparison::LtEq,
        Operator::Gt => Comparison::Gt,
        Operator::GtEq => Comparison::GtEq,
        Operator::Eq => Comparison::Eq,
        Operator::NotEq => Comparison::NotEq,
        _ => return None,
    })
}
