//! Text predicates in expressions, compiled into loads of Boolean columns.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::ir::program::{Kind, Op};
use crate::ir::row_program::RowSource;
use crate::ir::text_predicate::TextTest;
use crate::plan::compile::compiler::{Compiler, Expr};
use crate::plan::compile::row_program::Rows;
use crate::plan::compile::text::{Verdict, operand};
use crate::spec::rows::ExpressionColumn;

impl Compiler<'_, Rows> {
    /// The value of an expression by a text predicate.
    pub(crate) fn text_predicate(&mut self, test: TextTest, verdict: &Verdict) -> Option<u8> {
        let out = self.load_source(RowSource::Test(test), Kind::Bool)?;
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
            Some(other) => self.constant(Kind::Bool, &other)?,
            None => 0,
        };
        self.emit(op, Kind::Bool, [out, out, b])?;
        if let Verdict::OrNull { negated: true } = verdict {
            self.emit(Op::Not, Kind::Bool, [out, out, 0])?;
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
