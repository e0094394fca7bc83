//! Compiling conjuncts that mix the sides into a [`Program`] for the device.
//!
//! A part that reads one side only becomes a column of that side's input, evaluated once a row by DataFusion's own expressions. A part that
//! mixes the sides becomes instructions with exactly the values of DataFusion's expressions. A conjunct with any other part does not
//! compile, and DataFusion evaluates it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, InListExpr, IsNotNullExpr, IsNullExpr, NegativeExpr, NotExpr,
    TryCastExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::ir::pair_program::{
    Instruction, Kind, MAX_COLUMNS, MAX_INSTRUCTIONS, MAX_REGISTERS, Op, Program,
};
use crate::ir::side::Side;
use crate::plan::compile::compiler::Expr;
use crate::plan::compile::constants::{constant, word_of};
use crate::plan::compile::fallible::{divides_always, fails_somewhere, may_be_scalar, might_fail};
use crate::plan::recognise::sides::{on_side, side_of};
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
    let mut compiler = Compiler::new(filter);
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
        left: place(&compiler.left, left)?,
        right: place(&compiler.right, right)?,
        instructions: compiler.instructions,
        covers,
        can_fail: compiler.can_fail,
    }))
}

/// Registers are allocated as a stack: an expression's value goes to the first free one, and its temporaries are free again
/// afterwards. A method returns `None` for an expression that does not compile.
#[derive(Clone)]
pub(crate) struct Compiler<'a> {
    filter: &'a JoinFilter,
    instructions: Vec<Instruction>,
    /// Expressions over the columns of each side, in the order of the program's columns.
    left: Vec<Expr>,
    right: Vec<Expr>,
    /// The first free register.
    pub(crate) free: u8,
    pub(crate) can_fail: bool,
}

impl<'a> Compiler<'a> {
    fn new(filter: &'a JoinFilter) -> Self {
        Self {
            filter,
            instructions: vec![],
            left: vec![],
            right: vec![],
            free: 0,
            can_fail: false,
        }
    }

    /// Adds a conjunct: register 0 holds whether all of them are true. As in the residual filter, each is evaluated on pairs that satisfy those
    /// before it.
    fn conjunct(&mut self, expr: &Expr) -> Option<()> {
        let first = self.free == 0;
        if self.type_of(expr)? != DataType::Boolean {
            return None;
        }
        self.value(expr, false)?;
        if !first {
            self.emit(Op::Select, Kind::Bool, [0, 0, 1])?.c = 0;
        }
        self.free = 1;
        Some(())
    }

    /// Adds an instruction with registers `[out, a, b]`.
    pub(crate) fn emit(
        &mut self,
        op: Op,
        kind: Kind,
        [out, a, b]: [u8; 3],
    ) -> Option<&mut Instruction> {
        let room = self.instructions.len() < MAX_INSTRUCTIONS && usize::from(out) < MAX_REGISTERS;
        if !room {
            return None;
        }
        self.instructions.push(Instruction {
            op,
            kind,
            out,
            a,
            b,
            c: 0,
            column: 0,
            constant: 0,
            from: kind,
        });
        self.free = out + 1;
        self.instructions.last_mut()
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> Option<DataType> {
        expr.data_type(self.filter.schema()).ok()
    }

    /// Computes `expr` into the first free register, and returns that. `guarded`: DataFusion does not evaluate it on every
    /// pair.
    pub(crate) fn value(&mut self, expr: &Expr, guarded: bool) -> Option<u8> {
        let data_type = self.type_of(expr)?;
        let kind = Kind::of(&data_type)?;
        if collect_columns(expr).is_empty() {
            return self.constant(kind, &constant(expr, &data_type)?);
        }
        // A column that fails on a row costs the tile its index, so a guarded division is evaluated for each pair.
        if let Some(side) = side_of(self.filter, expr)
            && !(guarded && might_fail(expr, self.filter.schema()))
        {
            return self.load(side, kind, expr);
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, kind, guarded);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return self.unary(Op::Not, Kind::Bool, not.arg(), guarded);
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let operand = negative.arg();
            return match () {
                () if kind.is_float() => self.unary(Op::Neg, kind, operand, guarded),
                () if data_type.is_signed_integer() => {
                    self.negative_integer(operand, kind, guarded)
                }
                () => None,
            };
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            return self.unary(Op::IsNull, Kind::Bool, is_null.arg(), guarded);
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            return self.unary(Op::IsNotNull, Kind::Bool, is_not_null.arg(), guarded);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.cast(cast.expr(), &data_type, guarded);
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            // Where it turns a value into NULL, the host decides.
            return self.cast(cast.expr(), &data_type, guarded);
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case, &data_type, guarded);
        }
        if let Some(in_list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(in_list, guarded);
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
            && ScalarFunctionExpr::try_downcast_func::<AbsFunc>(expr.as_ref()).is_some()
            && let [argument] = call.args()
        {
            return self.absolute(argument, &data_type, guarded);
        }
        None
    }

    pub(crate) fn constant(&mut self, kind: Kind, value: &ScalarValue) -> Option<u8> {
        let word = word_of(value)?;
        let out = self.free;
        let instruction = self.emit(Op::Constant, kind, [out, 0, 0])?;
        instruction.constant = word.unwrap_or_default();
        instruction.b = word.is_none().into();
        Some(out)
    }

    fn load(&mut self, side: Side, kind: Kind, expr: &Expr) -> Option<u8> {
        let expr = on_side(self.filter, expr).ok()?;
        let (op, columns) = match side {
            Side::Left => (Op::LoadLeft, &mut self.left),
            Side::Right => (Op::LoadRight, &mut self.right),
        };
        let column = match columns.iter().position(|known| known == &expr) {
            Some(known) => known,
            None if columns.len() == MAX_COLUMNS => return None,
            None => {
                columns.push(expr);
                columns.len() - 1
            }
        };
        let out = self.free;
        self.emit(op, kind, [out, 0, 0])?.column = u16::try_from(column).ok()?;
        Some(out)
    }

    fn unary(&mut self, op: Op, kind: Kind, operand: &Expr, guarded: bool) -> Option<u8> {
        let out = self.value(operand, guarded)?;
        self.emit(op, kind, [out, out, 0])?;
        Some(out)
    }

    fn negative_integer(&mut self, operand: &Expr, kind: Kind, guarded: bool) -> Option<u8> {
        if !may_be_scalar(operand) {
            return self.unary(Op::Neg, kind, operand, guarded);
        }
        // One value for all pairs, and DataFusion fails on the negative of the least one: it goes to the host as by -1 it cannot
        // be divided.
        let data_type = self.type_of(operand)?;
        let out = self.value(operand, guarded)?;
        let by = self.constant(kind, &ScalarValue::new_negative_one(&data_type).ok()?)?;
        self.emit(Op::Div, kind, [out, out, by])?;
        self.can_fail = true;
        Some(out)
    }

    fn binary(&mut self, binary: &BinaryExpr, kind: Kind, guarded: bool) -> Option<u8> {
        let (left, right) = (binary.left(), binary.right());
        let operands = self.type_of(left)?;
        if operands != self.type_of(right)? {
            return None;
        }
        let numbers = operands.is_integer() || kind.is_float();
        let op = match binary.op() {
            Operator::Plus if numbers => Op::Add,
            Operator::Minus if numbers => Op::Sub,
            Operator::Multiply if numbers => Op::Mul,
            Operator::Divide if numbers => Op::Div,
            Operator::Modulo if numbers => Op::Rem,
            Operator::Eq => Op::Eq,
            Operator::NotEq => Op::NotEq,
            Operator::Lt => Op::Lt,
            Operator::LtEq => Op::LtEq,
            Operator::Gt => Op::Gt,
            Operator::GtEq => Op::GtEq,
            Operator::IsDistinctFrom => Op::Distinct,
            Operator::IsNotDistinctFrom => Op::NotDistinct,
            Operator::And => Op::And,
            Operator::Or => Op::Or,
            _ => return None,
        };
        let wrapping = BinaryExpr::new(Arc::clone(left), *binary.op(), Arc::clone(right));
        if *binary != wrapping {
            // This one fails on overflow.
            return None;
        }
        let right_guarded = guarded || matches!(op, Op::And | Op::Or);
        let a = self.value(left, guarded)?;
        let b = self.value(right, right_guarded)?;
        self.can_fail |=
            matches!(op, Op::Div | Op::Rem) && !kind.is_float() && !divides_always(right);
        self.emit(op, Kind::of(&operands)?, [a, a, b])?;
        Some(a)
    }

    /// Between numbers and Booleans.
    fn cast(&mut self, operand: &Expr, to: &DataType, guarded: bool) -> Option<u8> {
        let from = self.type_of(operand)?;
        let out = self.value(operand, guarded)?;
        if from == *to {
            return Some(out);
        }
        let plain = |t: &DataType| t.is_integer() || t.is_floating() || *t == DataType::Boolean;
        if !plain(&from) || !plain(to) {
            return None;
        }
        let (from, to) = (Kind::of(&from)?, Kind::of(to)?);
        self.can_fail |= !to.is_float() && to != Kind::Bool && !to.holds_all_of(from);
        self.emit(Op::Cast, to, [out, out, 0])?.from = from;
        Some(out)
    }
}

#[cfg(test)]
mod tests;
