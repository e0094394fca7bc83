//! Compiling conjuncts that mix the sides into a [`Program`] for the device.
//!
//! A part that reads one side only becomes a column of that side's input, evaluated once a row by DataFusion's own expressions. A part that
//! mixes the sides becomes instructions with exactly the values of DataFusion's expressions. A conjunct with any other part does not
//! compile, and DataFusion evaluates it.

use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::pair_program::{MAX_COLUMNS, MAX_INSTRUCTIONS, MAX_REGISTERS, Program};
use crate::ir::program::{Kind, Op};
use crate::ir::side::Side;
use crate::plan::compile::compiler::{Compiler, Expr, Target, is_of};
use crate::plan::compile::fallible::{fails_somewhere, might_fail};
use crate::plan::compile::sides::{on_side, side_of};
use crate::spec::join::SideInput;

/// A program for the conjuncts of `residual` that compile, within its limits, and up to one that does not compile and might fail; `None`
/// for none. The expressions that it reads are added to the sides' inputs.
pub(crate) fn compile(
    residual: &[JoinFilter],
    left: &mut SideInput,
    right: &mut SideInput,
) -> Result<Option<Program>> {
    let Some(filter) = residual.first() else {
        return Ok(None);
    };
    // Conjuncts are filters over the same columns.
    let target = Pairs {
        filter,
        left: vec![],
        right: vec![],
    };
    let mut compiler = Compiler::new(filter.schema(), target);
    let mut covers = vec![];
    for (i, conjunct) in residual.iter().enumerate() {
        let before = compiler.clone();
        match compiler.conjunct(conjunct.expression()) {
            Some(()) => covers.push(i),
            // On pairs that later conjuncts reject it would not be evaluated, and not fail: those are evaluated by the host, too.
            None if fails_somewhere(conjunct.expression(), conjunct.schema()) => {
                compiler = before;
                break;
            }
            None => compiler = before,
        }
    }
    if covers.is_empty() {
        return Ok(None);
    }
    let place = |expressions: &[Expr], input: &mut SideInput| -> Result<Vec<usize>> {
        let columns = expressions.iter().map(|expr| input.column_of(expr));
        columns.collect()
    };
    Ok(Some(Program {
        left: place(&compiler.target.left, left)?,
        right: place(&compiler.target.right, right)?,
        instructions: compiler.instructions,
        covers,
        can_fail: compiler.can_fail,
    }))
}

/// A program over pairs: the sides' expressions that are its columns, in order. Its kernels keep registers of 64 bits, so
/// there are no decimals.
#[derive(Clone)]
struct Pairs<'a> {
    filter: &'a JoinFilter,
    left: Vec<Expr>,
    right: Vec<Expr>,
}

impl Target for Pairs<'_> {
    const MAX_REGISTERS: usize = MAX_REGISTERS;
    const MAX_INSTRUCTIONS: usize = MAX_INSTRUCTIONS;

    fn kind(data_type: &DataType) -> Option<Kind> {
        Kind::of_word(data_type)
    }

    fn value(
        compiler: &mut Compiler<'_, Self>,
        expr: &Expr,
        data_type: &DataType,
        kind: Kind,
    ) -> Option<u8> {
        // A column that fails on a row costs the tile its index, so a guarded division is evaluated for each pair.
        match side_of(compiler.target.filter, expr) {
            Some(side) if !(compiler.guarded && might_fail(expr, compiler.schema)) => {
                compiler.load_side(side, kind, expr)
            }
            _ => compiler.operation(expr, data_type, kind),
        }
    }

    /// What fails on a pair is a fault there, for which the residual filter decides.
    fn may_skip(_: &Compiler<'_, Self>, _: &Expr) -> bool {
        true
    }

    fn call(compiler: &mut Compiler<'_, Self>, expr: &Expr, data_type: &DataType) -> Option<u8> {
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        match call.args() {
            [of] if is_of::<AbsFunc>(expr) => compiler.abs(of, data_type),
            _ => None,
        }
    }
}

impl Compiler<'_, Pairs<'_>> {
    /// Adds a conjunct: register 0 holds whether all of them are true. As in the residual filter, each is evaluated on pairs that satisfy those
    /// before it.
    fn conjunct(&mut self, expr: &Expr) -> Option<()> {
        let first = self.free == 0;
        if self.type_of(expr)? != DataType::Boolean {
            return None;
        }
        self.value(expr)?;
        if !first {
            self.select(Kind::Bool, 0, [0, 1, 0])?;
        }
        self.free = 1;
        Some(())
    }

    fn load_side(&mut self, side: Side, kind: Kind, expr: &Expr) -> Option<u8> {
        let target = &mut self.target;
        let expr = on_side(target.filter, expr).ok()?;
        let (op, columns) = match side {
            Side::Left => (Op::Load, &mut target.left),
            Side::Right => (Op::LoadRight, &mut target.right),
        };
        let column = match columns.iter().position(|known| known == &expr) {
            Some(known) => known,
            None if columns.len() == MAX_COLUMNS => return None,
            None => {
                columns.push(expr);
                columns.len() - 1
            }
        };
        self.load(op, kind, column)
    }
}

#[cfg(test)]
mod tests;
