//! CASE, IN and ABS of pair programs.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CaseExpr, InListExpr};

use crate::ir::pair_program::{Kind, Op};
use crate::plan::compile::compiler::Expr;
use crate::plan::compile::pair_program::Compiler;

impl<'a> Compiler<'a> {
    /// `a = x OR a = y OR …`, or its opposite.
    pub(crate) fn in_list(&mut self, in_list: &InListExpr, guarded: bool) -> Option<u8> {
        let data_type = self.type_of(in_list.expr())?;
        // It is not specified how DataFusion's sets compare floats.
        if data_type.is_floating() || in_list.list().is_empty() {
            return None;
        }
        let kind = Kind::of(&data_type)?;
        let value = self.value(in_list.expr(), guarded)?;
        let mut found = None;
        for item in in_list.list() {
            let item = self.branch(item, &data_type)?;
            self.emit(Op::Eq, kind, [item, value, item])?;
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

    /// `abs`, which fails on the least integer.
    pub(crate) fn absolute(
        &mut self,
        argument: &Expr,
        data_type: &DataType,
        guarded: bool,
    ) -> Option<u8> {
        if self.type_of(argument)? != *data_type {
            return None;
        }
        let numbers = data_type.is_integer() || data_type.is_floating();
        let (kind, out) = (Kind::of(data_type)?, self.value(argument, guarded)?);
        if data_type.is_unsigned_integer() {
            return Some(out);
        }
        if !numbers {
            return None;
        }
        let zero = ScalarValue::new_zero(data_type).ok()?;
        let below = self.constant(kind, &zero)?;
        self.emit(Op::Lt, kind, [below, out, below])?;
        if kind.is_float() {
            let negative = self.free;
            self.emit(Op::Neg, kind, [negative, out, 0])?;
            self.emit(Op::Select, kind, [negative, below, negative])?.c = out;
            // -0.0 is not below 0.0; no arithmetic, which would make a signalling NaN quiet.
            let zero = self.constant(kind, &zero)?;
            self.emit(Op::Eq, kind, [below, out, zero])?;
            self.emit(Op::Select, kind, [out, below, zero])?.c = negative;
            return Some(out);
        }
        // By -1 the least integer cannot be divided.
        let negative = self.constant(kind, &ScalarValue::new_negative_one(data_type).ok()?)?;
        self.emit(Op::Div, kind, [negative, out, negative])?;
        self.can_fail = true;
        self.emit(Op::Select, kind, [out, below, negative])?.c = out;
        Some(out)
    }

    /// From the last branch to the first: the result so far is what the branch before selects otherwise.
    pub(crate) fn case(
        &mut self,
        case: &CaseExpr,
        data_type: &DataType,
        guarded: bool,
    ) -> Option<u8> {
        let out = self.free;
        let base = match case.expr() {
            None => None,
            Some(base) => {
                // DataFusion compares floats with a base bit by bit.
                let base_type = self.type_of(base)?;
                if base_type.is_floating() {
                    return None;
                }
                Some((self.value(base, guarded)?, base_type))
            }
        };
        let mut so_far = match case.else_expr() {
            Some(value) => self.branch(value, data_type)?,
            None => self.constant(Kind::of(data_type)?, &ScalarValue::Null)?,
        };
        let branches = case.when_then_expr();
        for (i, (when, then)) in branches.iter().enumerate().rev() {
            let condition = self.value(when, guarded || i > 0)?;
            match &base {
                None if self.type_of(when)? != DataType::Boolean => return None,
                None => {}
                Some((_, base_type)) if self.type_of(when)? != *base_type => return None,
                Some((base, base_type)) => {
                    let kind = Kind::of(base_type)?;
                    self.emit(Op::Eq, kind, [condition, *base, condition])?;
                }
            }
            let then = self.branch(then, data_type)?;
            let target = if i == 0 { out } else { so_far };
            self.emit(Op::Select, Kind::of(data_type)?, [target, condition, then])?
                .c = so_far;
            so_far = target;
        }
        Some(out)
    }

    /// A value of the type of the whole CASE, or NULL.
    fn branch(&mut self, expr: &Expr, data_type: &DataType) -> Option<u8> {
        if self.type_of(expr)? == DataType::Null {
            return self.constant(Kind::of(data_type)?, &ScalarValue::Null);
        }
        match self.type_of(expr)? == *data_type {
            true => self.value(expr, true),
            false => None,
        }
    }
}
