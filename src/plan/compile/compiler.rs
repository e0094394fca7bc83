//! [`Compiler`]: the state of a compilation, and what differs between programs over pairs and over rows.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::ScalarUDFImpl;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::ir::program::{Instruction, Kind, Op};

/// Whether `expr` calls the function `F`.
pub(crate) fn is_of<F: ScalarUDFImpl + 'static>(expr: &Expr) -> bool {
    ScalarFunctionExpr::try_downcast_func::<F>(expr.as_ref()).is_some()
}

pub(crate) type Expr = Arc<dyn PhysicalExpr>;

/// A form of programs: their limits, the kinds and operations that their back ends have, and what they load. A value of
/// it is the state that only this form has.
pub(crate) trait Target: Sized {
    const MAX_REGISTERS: usize;
    const MAX_INSTRUCTIONS: usize;

    /// The kind of a type, if registers hold it.
    fn kind(data_type: &DataType) -> Option<Kind>;

    /// Computes an expression over columns: a load, or [`Compiler::operation`] for everything else.
    fn value(
        compiler: &mut Compiler<'_, Self>,
        expr: &Expr,
        data_type: &DataType,
        kind: Kind,
    ) -> Option<u8>;

    /// Whether an operand of AND, OR or IN may be left out on rows that the operands before it decide.
    fn may_skip(compiler: &Compiler<'_, Self>, operand: &Expr) -> bool;

    /// A call of a function.
    fn call(compiler: &mut Compiler<'_, Self>, expr: &Expr, data_type: &DataType) -> Option<u8>;

    /// An expression without columns whose value is known when the query runs.
    fn subquery(_compiler: &mut Compiler<'_, Self>, _expr: &Expr, _kind: Kind) -> Option<u8> {
        None
    }

    /// Arithmetic on operands that are not numbers of the same type.
    fn arithmetic(
        _compiler: &mut Compiler<'_, Self>,
        _op: Op,
        _binary: &BinaryExpr,
        _data_type: &DataType,
    ) -> Option<u8> {
        None
    }

    /// A cast of register `out` that is not between numbers and Booleans.
    fn cast(
        _compiler: &mut Compiler<'_, Self>,
        _out: u8,
        _from: &DataType,
        _to: &DataType,
    ) -> Option<()> {
        None
    }
}

/// Registers are allocated as a stack: an expression's value goes to the first free one, and its temporaries are free again afterwards. A
/// method returns `None` for an expression that does not compile.
#[derive(Clone)]
pub(crate) struct Compiler<'a, T> {
    pub(crate) schema: &'a Schema,
    pub(crate) target: T,
    pub(crate) instructions: Vec<Instruction>,
    /// The first free register.
    pub(crate) free: u8,
    /// DataFusion does not evaluate the current expression on every row. Read for pair programs alone.
    pub(crate) guarded: bool,
    /// Whether DataFusion's evaluation of operations on numbers can fail. Read for pair programs alone: what only row programs do is not in it.
    pub(crate) can_fail: bool,
}

impl<'a, T: Target> Compiler<'a, T> {
    pub(crate) fn new(schema: &'a Schema, target: T) -> Self {
        Self {
            schema,
            target,
            instructions: vec![],
            free: 0,
            guarded: false,
            can_fail: false,
        }
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> Option<DataType> {
        expr.data_type(self.schema).ok()
    }

    /// Adds an instruction with registers `[out, a, b]`.
    pub(crate) fn emit(
        &mut self,
        op: Op,
        kind: Kind,
        [out, a, b]: [u8; 3],
    ) -> Option<&mut Instruction> {
        if self.instructions.len() == T::MAX_INSTRUCTIONS || usize::from(out) >= T::MAX_REGISTERS {
            return None;
        }
        self.instructions
            .push(Instruction::of(op, kind, [out, a, b]));
        self.free = out + 1;
        self.instructions.last_mut()
    }

    /// Loads column `column` of the program.
    pub(crate) fn load(&mut self, op: Op, kind: Kind, column: usize) -> Option<u8> {
        let out = self.free;
        self.emit(op, kind, [out, 0, 0])?.column = u16::try_from(column).ok()?;
        Some(out)
    }

    /// A constant integer, or a zero of any kind.
    pub(crate) fn word(&mut self, kind: Kind, value: i64) -> Option<u8> {
        let out = self.free;
        self.emit(Op::Constant, kind, [out, 0, 0])?.constant = i128::from(value as u64);
        Some(out)
    }

    /// Register `out` is `then` where `condition` is true, and otherwise `or`.
    pub(crate) fn select(
        &mut self,
        kind: Kind,
        out: u8,
        [condition, then, or]: [u8; 3],
    ) -> Option<()> {
        self.emit(Op::Select, kind, [out, condition, then])?.c = or;
        Some(())
    }
}
