//! CASE, IN and `abs`, compiled into selections and comparisons.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CaseExpr, InListExpr};
use datafusion::physical_expr::utils::collect_columns;

use crate::ir::program::{Kind, Op};
use crate::plan::compile::compiler::{Compiler, Expr, Target};
use crate::plan::compile::constants::constant;
use crate::plan::compile::early_value::reads_subquery;

impl<T: Target> Compiler<'_, T> {
    /// `a = x OR a = y OR …`, or its opposite.
    pub(crate) fn in_list(&mut self, in_list: &InListExpr) -> Option<u8> {
        let data_type = self.type_of(in_list.expr())?;
        if in_list.list().is_empty() {
            return None;
        }
        let kind = T::kind(&data_type)?;
        let value = self.value(in_list.expr())?;
        let mut found = None;
        for item in in_list.list() {
            if !T::may_skip(self, item) {
                return None;
            }
            let zero = match data_type.is_floating() {
                true => self.sign_of_zero(item)?,
                false => None,
            };
            let item = self.branch(item, &data_type, kind)?;
            self.emit(Op::Eq, kind, [item, value, item])?;
            if let Some(sign) = zero {
                self.with_sign(kind, item, value, sign)?;
            }
            match found {
                None => found = Some(item),
                Some(found) => {
                    self.emit(Op::Or, Kind::Bool, [found, found, item])?;
                }
            }
        }
        let found = found?;
        match in_list.negated() {
            true => self.emit(Op::Not, Kind::Bool, [value, found, 0])?,
            // Down to the expression's own register.
            false => self.emit(Op::Or, Kind::Bool, [value, found, found])?,
        };
        Some(value)
    }

    /// The sign of a constant, where it is a floating-point zero: IN compares bit by bit, and these two are equal otherwise. `None` outside for an item
    /// that is not constant.
    fn sign_of_zero(&self, item: &Expr) -> Option<Option<f64>> {
        if !collect_columns(item).is_empty() || reads_subquery(item) {
            return None;
        }
        let zero = match constant(item, &self.type_of(item)?)? {
            ScalarValue::Float32(value) => value.map(f64::from),
            ScalarValue::Float64(value) => value,
            _ => None,
        };
        Some(zero.filter(|value| *value == 0.0).map(f64::signum))
    }

    /// Register `out` and whether the float in register `value` has this sign, as one divided by it shows also of a zero.
    fn with_sign(&mut self, kind: Kind, out: u8, value: u8, sign: f64) -> Option<()> {
        let one = match kind {
            Kind::F32 => ScalarValue::Float32(Some(1.0)),
            _ => ScalarValue::Float64(Some(1.0)),
        };
        let inverse = self.constant(kind, &one)?;
        self.emit(Op::Div, kind, [inverse, inverse, value])?;
        let zero = self.word(kind, 0)?;
        let op = if sign > 0.0 { Op::Gt } else { Op::Lt };
        self.emit(op, kind, [inverse, inverse, zero])?;
        self.emit(Op::And, Kind::Bool, [out, out, inverse])
            .map(|_| ())
    }

    /// `abs`, which fails on the least integer.
    pub(crate) fn abs(&mut self, of: &Expr, data_type: &DataType) -> Option<u8> {
        let kind = T::kind(data_type)?;
        let numbers = data_type.is_integer() || kind.is_float() || kind == Kind::Decimal;
        if !numbers || self.type_of(of)? != *data_type {
            return None;
        }
        let out = self.value(of)?;
        if data_type.is_unsigned_integer() {
            return Some(out);
        }
        let below = self.word(kind, 0)?;
        self.emit(Op::Lt, kind, [below, out, below])?;
        if kind.is_float() {
            let negative = self.free;
            self.emit(Op::Neg, kind, [negative, out, 0])?;
            self.select(kind, negative, [below, negative, out])?;
            // -0.0 is not below 0.0; no arithmetic, which would make a signalling NaN quiet.
            let zero = self.word(kind, 0)?;
            self.emit(Op::Eq, kind, [below, out, zero])?;
            self.select(kind, out, [below, zero, negative])?;
            return Some(out);
        }
        let negative = self.free;
        if kind == Kind::Decimal {
            self.word(kind, 0)?;
            self.emit(Op::Sub, kind, [negative, negative, out])?;
        } else {
            // By -1 the least integer cannot be divided.
            self.word(kind, -1)?;
            self.emit(Op::Div, kind, [negative, out, negative])?;
            self.can_fail = true;
        }
        self.select(kind, out, [below, negative, out])?;
        Some(out)
    }

    /// From the last branch to the first: the result so far is what the branch before selects otherwise.
    pub(crate) fn case(&mut self, case: &CaseExpr, data_type: &DataType, kind: Kind) -> Option<u8> {
        let out = self.free;
        let base = match case.expr() {
            None => None,
            Some(base) => {
                // DataFusion compares floats with a base bit by bit.
                let base_type = self.type_of(base)?;
                if base_type.is_floating() {
                    return None;
                }
                Some((self.value(base)?, base_type))
            }
        };
        let mut so_far = match case.else_expr() {
            Some(value) => self.branch(value, data_type, kind)?,
            None => self.constant(kind, &ScalarValue::Null)?,
        };
        for (i, (when, then)) in case.when_then_expr().iter().enumerate().rev() {
            let condition = match i {
                0 => self.value(when)?,
                _ => self.guarded_value(when)?,
            };
            let when_type = self.type_of(when)?;
            match &base {
                None if when_type != DataType::Boolean => return None,
                None => {}
                Some((_, base_type)) if when_type != *base_type => return None,
                Some((base, base_type)) => {
                    let registers = [condition, *base, condition];
                    self.emit(Op::Eq, T::kind(base_type)?, registers)?;
                }
            }
            let then = self.branch(then, data_type, kind)?;
            let target = if i == 0 { out } else { so_far };
            self.select(kind, target, [condition, then, so_far])?;
            so_far = target;
        }
        Some(out)
    }

    /// A value of the type of the whole CASE or IN, or NULL.
    fn branch(&mut self, expr: &Expr, data_type: &DataType, kind: Kind) -> Option<u8> {
        match self.type_of(expr)? {
            DataType::Null => self.constant(kind, &ScalarValue::Null),
            same if same == *data_type => self.guarded_value(expr),
            _ => None,
        }
    }
}
