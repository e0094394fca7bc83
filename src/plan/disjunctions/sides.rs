//! [`Sides`]: the columns of a join's inputs, which tell what an expression of its condition reads.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable, Join};

use crate::ir::side::Side;

/// The columns of the inputs, by side and together.
pub(super) struct Sides<'a> {
    left: &'a DFSchema,
    right: &'a DFSchema,
    both: DFSchema,
}

impl<'a> Sides<'a> {
    /// `None` if a name means a column of either input.
    pub(super) fn of(join: &'a Join) -> Option<Self> {
        let left: &DFSchema = join.left.schema();
        let right: &DFSchema = join.right.schema();
        let both = left.join(right).ok()?;
        Some(Self { left, right, both })
    }

    /// The one side whose columns `expr` reads; `None` if it reads none or both.
    fn side_of(&self, expr: &Expr) -> Option<Side> {
        let columns = expr.column_refs();
        let is_of = |schema: &DFSchema| {
            let mut columns = columns.iter();
            columns.all(|column| schema.is_column_from_schema(column))
        };
        match (columns.is_empty(), is_of(self.left), is_of(self.right)) {
            (false, true, false) => Some(Side::Left),
            (false, false, true) => Some(Side::Right),
            _ => None,
        }
    }

    /// Whether one expression reads the left side alone, and the other one the right side.
    pub(super) fn are_across(&self, a: &Expr, b: &Expr) -> bool {
        match (self.side_of(a), self.side_of(b)) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        }
    }

    pub(super) fn type_of(&self, expr: &Expr) -> Option<DataType> {
        expr.get_type(&self.both).ok()
    }
}
