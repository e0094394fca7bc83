//! [`Compiler`]: the state of a compilation of row expressions: registers, columns, instructions.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::logical_expr::ScalarUDFImpl;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::ir::pair_program::Kind;
use crate::ir::row_program::{RowInstruction, RowKind, RowSource};

pub(crate) const I32: RowKind = RowKind::Plain(Kind::I32);

pub(crate) const I64: RowKind = RowKind::Plain(Kind::I64);

/// Whether `expr` calls the function `F`.
pub(crate) fn is_of<F: ScalarUDFImpl + 'static>(expr: &Expr) -> bool {
    ScalarFunctionExpr::try_downcast_func::<F>(expr.as_ref()).is_some()
}

pub(crate) type Expr = Arc<dyn PhysicalExpr>;

/// Registers are allocated as a stack: an expression's value goes to the first free one, and its temporaries are free again afterwards. A
/// method returns `None` for an expression that does not compile.
pub(crate) struct Compiler<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) instructions: Vec<RowInstruction>,
    pub(crate) columns: Vec<RowSource>,
    /// The first free register.
    pub(crate) free: u8,
}

pub(crate) const BOOL: RowKind = RowKind::Plain(Kind::Bool);

pub(crate) const F64: RowKind = RowKind::Plain(Kind::F64);
