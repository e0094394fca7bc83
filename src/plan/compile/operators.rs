//! Compiling operators, casts and constants, with exactly the values of DataFusion's expressions.

use std::mem::replace;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, InListExpr, IsNotNullExpr, IsNullExpr, NegativeExpr, NotExpr,
    TryCastExpr,
};
use datafusion::physical_expr::utils::collect_columns;

use crate::ir::program::{Kind, Op};
use crate::plan::compile::compiler::{Compiler, Expr, Target};
use crate::plan::compile::constants::constant;
use crate::plan::compile::early_value::reads_subquery;
use crate::plan::compile::fallible::{divides_always, may_be_scalar};
use crate::spec::scalar_word::word_of;

impl<T: Target> Compiler<'_, T> {
    /// Computes `expr` into the first free register, and returns that.
    pub(crate) fn value(&mut self, expr: &Expr) -> Option<u8> {
        let data_type = self.type_of(expr)?;
        let kind = T::kind(&data_type)?;
        if collect_columns(expr).is_empty() {
            if reads_subquery(expr) {
                return T::subquery(self, expr, kind);
            }
            return self.constant(kind, &constant(expr, &data_type)?);
        }
        T::value(self, expr, &data_type, kind)
    }

    /// Computes an expression that DataFusion evaluates on some rows only.
    pub(crate) fn guarded_value(&mut self, expr: &Expr) -> Option<u8> {
        let before = replace(&mut self.guarded, true);
        let value = self.value(expr);
        self.guarded = before;
        value
    }

    /// Computes an operation on other expressions.
    pub(crate) fn operation(
        &mut self,
        expr: &Expr,
        data_type: &DataType,
        kind: Kind,
    ) -> Option<u8> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, data_type);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return self.unary(Op::Not, Kind::Bool, not.arg());
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            return self.negative(negative.arg(), data_type, kind);
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            return self.unary(Op::IsNull, Kind::Bool, is_null.arg());
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            return self.unary(Op::IsNotNull, Kind::Bool, is_not_null.arg());
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.cast(cast.expr(), data_type);
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            // What it turns into NULL is a fault.
            return self.cast(cast.expr(), data_type);
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case, data_type, kind);
        }
        if let Some(in_list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(in_list);
        }
        T::call(self, expr, data_type)
    }

    pub(crate) fn constant(&mut self, kind: Kind, value: &ScalarValue) -> Option<u8> {
        let word = word_of(value)?;
        let out = self.free;
        let instruction = self.emit(Op::Constant, kind, [out, 0, 0])?;
        instruction.constant = word.unwrap_or_default();
        instruction.b = word.is_none().into();
        Some(out)
    }

    fn unary(&mut self, op: Op, kind: Kind, operand: &Expr) -> Option<u8> {
        let out = self.value(operand)?;
        self.emit(op, kind, [out, out, 0])?;
        Some(out)
    }

    fn negative(&mut self, operand: &Expr, data_type: &DataType, kind: Kind) -> Option<u8> {
        if kind == Kind::Decimal {
            let zero = self.word(kind, 0)?;
            let value = self.value(operand)?;
            self.emit(Op::Sub, kind, [zero, zero, value])?;
            return Some(zero);
        }
        // On the least integer DataFusion wraps, but fails where one value stands for all rows of a batch.
        let wraps = data_type.is_signed_integer() && !may_be_scalar(operand);
        match wraps || kind.is_float() {
            true => self.unary(Op::Neg, kind, operand),
            false => None,
        }
    }

    fn binary(&mut self, binary: &BinaryExpr, data_type: &DataType) -> Option<u8> {
        let (left, right) = (binary.left(), binary.right());
        let wrapping = BinaryExpr::new(Arc::clone(left), *binary.op(), Arc::clone(right));
        if *binary != wrapping {
            // This one fails on overflow.
            return None;
        }
        let operands = self.type_of(left)?;
        let differ = operands != self.type_of(right)?;
        let numbers = operands.is_integer() || operands.is_floating();
        let op = op_of(binary.op())?;
        let is_arithmetic = matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem);
        match is_arithmetic {
            true if differ || !numbers => return T::arithmetic(self, op, binary, data_type),
            false if differ => return None,
            _ => {}
        }
        let a = self.value(left)?;
        let b = match op {
            Op::And | Op::Or if !T::may_skip(self, right) => return self.strict(op, a, right),
            Op::And | Op::Or => self.guarded_value(right)?,
            _ => self.value(right)?,
        };
        let kind = T::kind(&operands)?;
        self.can_fail |=
            matches!(op, Op::Div | Op::Rem) && !kind.is_float() && !divides_always(right);
        self.emit(op, kind, [a, a, b])?;
        Some(a)
    }

    /// AND or OR whose right side DataFusion may evaluate on rows that the left one decides: where it fails on a row, the result is a fault,
    /// and DataFusion says whether the query fails.
    fn strict(&mut self, op: Op, left: u8, right: &Expr) -> Option<u8> {
        let right = self.value(right)?;
        let is_null = right + 1;
        self.emit(Op::IsNull, Kind::Bool, [is_null, right, 0])?;
        self.emit(op, Kind::Bool, [left, left, right])?;
        self.select(Kind::Bool, left, [is_null, left, left])?;
        Some(left)
    }

    fn cast(&mut self, operand: &Expr, to: &DataType) -> Option<u8> {
        let from = self.type_of(operand)?;
        let out = self.value(operand)?;
        if from == *to {
            return Some(out);
        }
        let plain = |t: &DataType| t.is_integer() || t.is_floating() || *t == DataType::Boolean;
        if !plain(&from) || !plain(to) {
            T::cast(self, out, &from, to)?;
            return Some(out);
        }
        let (from, to) = (T::kind(&from)?, T::kind(to)?);
        self.can_fail |= !to.is_float() && to != Kind::Bool && !to.holds_all_of(from);
        self.convert(out, from, to)?;
        Some(out)
    }

    /// Register `out`, of kind `from`, as another kind.
    pub(crate) fn convert(&mut self, out: u8, from: Kind, to: Kind) -> Option<()> {
        self.emit(Op::Cast, to, [out, out, 0])?.from = from;
        Some(())
    }
}

fn op_of(op: &Operator) -> Option<Op> {
    Some(match op {
        Operator::Plus => Op::Add,
        Operator::Minus => Op::Sub,
        Operator::Multiply => Op::Mul,
        Operator::Divide => Op::Div,
        Operator::Modulo => Op::Rem,
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
    })
}
