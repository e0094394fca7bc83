//! Text predicates in expressions, compiled into loads of Boolean columns.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::ScalarFunctionExpr;

use crate::functions::text::shingles::Shingles;
use crate::ir::program::{Kind, Op};
use crate::ir::row_program::RowSource;
use crate::ir::text_predicate::TextTest;
use crate::plan::compile::compiler::{Compiler, Expr};
use crate::plan::compile::constants::constant;
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

    /// Windows of characters of a column of text: `shingles(column, n)`.
    pub(crate) fn shingles(&self, expr: &Expr) -> Option<ExpressionColumn> {
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        call.fun().inner().downcast_ref::<Shingles>()?;
        let (text, n) = match call.args() {
            [text, n] => (text, n),
            [text, n, unit] if Shingles::is_of_characters(&constant(unit, &DataType::Utf8)?) => {
                (text, n)
            }
            _ => return None,
        };
        let of = operand(text, self.schema)?;
        let is_plain = matches!(
            self.schema.field(of.column).data_type(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        );
        let n = match constant(n, &DataType::Int64)?.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(n))) if n > 0 => n,
            _ => return None,
        };
        (is_plain && of.slice.is_none()).then_some(ExpressionColumn::Shingles {
            column: of.column,
            // No text has more characters.
            length: u32::try_from(n).unwrap_or(u32::MAX),
        })
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
