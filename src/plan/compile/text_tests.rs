//! Text predicates in expressions, compiled into loads of Boolean columns.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;

use crate::ir::pair_program::Op;
use crate::ir::row_program::{RowOp, RowSource};
use crate::ir::text_predicate::TextTest;
use crate::plan::compile::compiler::{BOOL, Compiler, Expr};
use crate::plan::compile::text::{Verdict, operand};
use crate::spec::rows::ExpressionColumn;

impl Compiler<'_> {
    /// The value of an expression by a text predicate.
    pub(crate) fn text_predicate(&mut self, test: TextTest, verdict: &Verdict) -> Option<u8> {
        let out = self.load(RowSource::Test(test), BOOL)?;
        let (op, other) = match *verdict {
            Verdict::Is { negated: false } => return Some(out),
            Verdict::Is { negated: true } => (Op::Not, None),
            Verdict::StatisticsCache { negated: false } => (Op::IsNotNull, None),
            Verdict::StatisticsCache { negated: true } => (Op::IsNull, None),
            Verdict::OrNull { .. } => (Op::Or, Some(ScalarValue::Null)),
            Verdict::Surely { negated: false } => (Op::NotDistinct, Some(true.into())),
            Verdict::Surely { negated: true } => (Op::Distinct, Some(true.into())),
        };
        let b = match other {
            Some(other) => self.constant(BOOL, &other)?,
            None => 0,
        };
        self.emit(RowOp::Plain(op), BOOL, [out, out, b])?;
        if let Verdict::OrNull { negated: true } = verdict {
            self.emit(RowOp::Plain(Op::Not), BOOL, [out, out, 0])?;
        }
        Some(out)
    }

    /// A substring of a column of the same type.
    pub(crate) fn slice(&self, expr: &Expr, data_type: &DataType) -> Option<ExpressionColumn> {
        let operand = operand(expr, self.schema)?;
        let of_column = self.schema.field(operand.column).data_type();
        (of_column == data_type).then_some(ExpressionColumn::Slice {
            column: operand.column,
            slice: operand.slice?,
        })
    }
}

/// A branch of a CASE with a base, as a condition.
pub(crate) fn text_equals(left: &Expr, right: &Expr) -> Expr {
    Arc::new(BinaryExpr::new(
        Arc::clone(left),
        Operator::Eq,
        Arc::clone(right),
    ))
}
