//! A CASE of text: the program computes the number of a source, a column or a constant, and the device gathers its value.
//!
//! ```text
//! CASE WHEN a > 1 THEN t WHEN a > 0 THEN 'x' ELSE u END     CASE WHEN a > 1 THEN 0 WHEN a > 0 THEN 2 ELSE 1 END of t, u, 'x'
//! ```

use std::sync::Arc;

use arrow::array::new_empty_array;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CaseExpr, Column, lit};
use datafusion::physical_expr::utils::collect_columns;

use crate::plan::compile::compiler::{Compiler, Expr};
use crate::plan::compile::constants::constant;
use crate::plan::compile::row_program::Rows;
use crate::spec::rows::Sources;

/// What a branch of a CASE of text is.
#[derive(Clone, PartialEq)]
enum Source {
    Column(usize),
    Constant(ScalarValue),
}

impl Compiler<'_, Rows> {
    /// The same CASE of the numbers of its sources; no row is NULL of it.
    pub(crate) fn chosen(&self, expr: &Expr, data_type: &DataType) -> Option<(Expr, Sources)> {
        use DataType::*;
        let is_text = matches!(
            data_type,
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
        );
        let case = expr.downcast_ref::<CaseExpr>().filter(|_| is_text)?;
        let branches = case.when_then_expr().iter();
        let branches = branches.map(|(_, then)| self.source(then, data_type));
        let mut all = branches.collect::<Option<Vec<_>>>()?;
        all.push(match case.else_expr() {
            Some(otherwise) => self.source(otherwise, data_type)?,
            None => Source::Constant(ScalarValue::try_from(data_type).ok()?),
        });
        let (mut columns, mut constants) = (vec![], vec![]);
        for source in &all {
            match source {
                Source::Column(column) if !columns.contains(column) => columns.push(*column),
                Source::Column(_) => {}
                Source::Constant(value) => constants.push(value.clone()),
            }
        }
        let mut behind_columns = 0..constants.len();
        let numbers = all.iter().map(|source| match source {
            Source::Column(column) => columns.iter().position(|known| known == column),
            Source::Constant(_) => Some(columns.len() + behind_columns.next()?),
        });
        let numbers = numbers.map(|number| Some(lit(u32::try_from(number?).ok()?)));
        let mut numbers = numbers.collect::<Option<Vec<Expr>>>()?;
        let otherwise = numbers.pop();
        let conditions = case.when_then_expr().iter();
        let branches = conditions
            .zip(numbers)
            .map(|((when, _), number)| (Arc::clone(when), number));
        let numbers = CaseExpr::try_new(case.expr().cloned(), branches.collect(), otherwise);
        let constants = match constants.is_empty() {
            true => new_empty_array(data_type),
            false => ScalarValue::iter_to_array(constants).ok()?,
        };
        let sources = Sources { columns, constants };
        (sources.constants.data_type() == data_type).then_some((Arc::new(numbers.ok()?), sources))
    }

    /// A column, or a constant or NULL, of the type of the whole CASE.
    fn source(&self, expr: &Expr, data_type: &DataType) -> Option<Source> {
        let of_expr = self.type_of(expr)?;
        if of_expr == DataType::Null {
            return ScalarValue::try_from(data_type).ok().map(Source::Constant);
        }
        if of_expr != *data_type {
            return None;
        }
        if let Some(column) = expr.downcast_ref::<Column>() {
            return Some(Source::Column(column.index()));
        }
        match collect_columns(expr).is_empty() {
            true => constant(expr, data_type)
                .filter(|value| value.data_type() == *data_type)
                .map(Source::Constant),
            false => None,
        }
    }
}
