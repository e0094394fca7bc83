//! A CASE of constant texts: the program computes the number of the constant, and the device gathers it from a column of all constants.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CaseExpr, lit};
use datafusion::physical_expr::utils::collect_columns;

use crate::plan::compile::compiler::{Compiler, Expr};
use crate::plan::compile::constants::constant;
use crate::plan::compile::row_program::Rows;

impl Compiler<'_, Rows> {
    /// The same CASE of the numbers of its constants, which follow in that order; no row is NULL of it.
    pub(crate) fn chosen(&self, expr: &Expr, data_type: &DataType) -> Option<(Expr, ArrayRef)> {
        let is_text = matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        );
        let case = expr.downcast_ref::<CaseExpr>().filter(|_| is_text)?;
        let mut constants = vec![];
        let mut number = |value: ScalarValue| -> Option<Expr> {
            let number = u32::try_from(constants.len()).ok()?;
            constants.push(value);
            Some(lit(number))
        };
        let mut branches = vec![];
        for (when, then) in case.when_then_expr() {
            let then = number(self.text_of(then, data_type)?)?;
            branches.push((Arc::clone(when), then));
        }
        let otherwise = match case.else_expr() {
            Some(otherwise) => self.text_of(otherwise, data_type)?,
            None => ScalarValue::try_from(data_type).ok()?,
        };
        let otherwise = number(otherwise)?;
        let numbers = CaseExpr::try_new(case.expr().cloned(), branches, Some(otherwise));
        let constants = ScalarValue::iter_to_array(constants).ok()?;
        (constants.data_type() == data_type).then_some((Arc::new(numbers.ok()?), constants))
    }

    /// A constant of the type of the whole CASE, or NULL.
    fn text_of(&self, expr: &Expr, data_type: &DataType) -> Option<ScalarValue> {
        if self.type_of(expr)? == DataType::Null {
            return ScalarValue::try_from(data_type).ok();
        }
        match collect_columns(expr).is_empty() {
            true => constant(expr, data_type).filter(|value| value.data_type() == *data_type),
            false => None,
        }
    }
}
