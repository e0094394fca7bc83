//! Arithmetic and casts of decimals, and other casts, in row programs.

use arrow::datatypes::DataType;

use crate::ir::pair_program::Op;
use crate::ir::row_program::{RowKind, RowOp};
use crate::plan::compile::compiler::{Compiler, Expr, F64};
use crate::plan::compile::row_program::{MAX_SCALE, ten_to};

impl Compiler<'_> {
    /// As Arrow's kernels: sums, differences and remainders at the larger scale, products at both together, quotients at four digits more.
    pub(crate) fn decimals(
        &mut self,
        op: Op,
        (left, s): (&Expr, i8),
        (right, t): (&Expr, i8),
        data_type: &DataType,
    ) -> Option<u8> {
        let &DataType::Decimal128(_, scale) = data_type else {
            return None;
        };
        let (wanted, ups) = match op {
            Op::Add | Op::Sub | Op::Rem => (
                s.max(t),
                [s.max(t).checked_sub(s)?, s.max(t).checked_sub(t)?],
            ),
            Op::Mul => (s.checked_add(t)?, [0, 0]),
            Op::Div => {
                let wanted = s.checked_add(4)?.min(MAX_SCALE);
                let up = wanted.checked_sub(s)?.checked_add(t)?;
                (wanted, [up.max(0), up.min(0).checked_neg()?])
            }
            _ => return None,
        };
        if wanted != scale {
            return None;
        }
        let mut registers = [0; 2];
        for ((operand, up), register) in [left, right].into_iter().zip(ups).zip(&mut registers) {
            *register = self.value(operand)?;
            if up > 0 {
                self.scale(*register, RowKind::Decimal, up, 0)?;
            }
        }
        let [a, b] = registers;
        self.emit(RowOp::Plain(op), RowKind::Decimal, [a, a, b])?;
        Some(a)
    }

    /// Register `out` times ten to the power of `up`, of at most `digits` digits, unless that is 0.
    fn scale(&mut self, out: u8, from: RowKind, up: i8, digits: u8) -> Option<()> {
        let factor = ten_to(up)?;
        let instruction = self.emit(RowOp::Scale, RowKind::Decimal, [out, out, digits])?;
        (instruction.constant, instruction.from) = (factor, from);
        Some(())
    }

    /// Between numbers, Booleans and decimals, and between dates and times.
    pub(crate) fn cast(&mut self, operand: &Expr, to: &DataType) -> Option<u8> {
        let from = self.type_of(operand)?;
        let out = self.value(operand)?;
        if from == *to {
            return Some(out);
        }
        let plain = |t: &DataType| t.is_integer() || t.is_floating() || *t == DataType::Boolean;
        match (&from, to) {
            (from, to) if plain(from) && plain(to) => {
                let (from, to) = (RowKind::of(from)?, RowKind::of(to)?);
                self.emit(RowOp::Plain(Op::Cast), to, [out, out, 0])?.from = from;
            }
            (from, DataType::Decimal128(digits, scale)) if from.is_integer() && *scale >= 0 => {
                self.scale(out, RowKind::of(from)?, *scale, *digits)?;
            }
            (DataType::Decimal128(_, s), DataType::Decimal128(digits, t)) => {
                let up = t.checked_sub(*s)?;
                match up >= 0 {
                    true => self.scale(out, RowKind::Decimal, up, *digits)?,
                    false => {
                        let by = ten_to(-up)?;
                        self.emit(RowOp::Round, RowKind::Decimal, [out, out, *digits])?
                            .constant = by;
                    }
                }
            }
            (DataType::Decimal128(_, scale), to) if to.is_integer() && *scale >= 0 => {
                let by = ten_to(*scale)?;
                self.undecimal(RowOp::Truncate, RowKind::of(to)?, out, by)?;
            }
            (DataType::Decimal128(_, scale), DataType::Float32 | DataType::Float64)
                if *scale >= 0 =>
            {
                let by = 10f64.powi((*scale).into()).to_bits();
                self.undecimal(RowOp::ToFloat, F64, out, by.into())?;
                self.float_to_float(out, F64, RowKind::of(to)?)?;
            }
            (from, DataType::Decimal128(digits, scale))
                if matches!(from, DataType::Float32 | DataType::Float64) && *scale >= 0 =>
            {
                self.float_to_float(out, RowKind::of(from)?, F64)?;
                let by = 10f64.powi((*scale).into()).to_bits();
                let made = self.emit(RowOp::FromFloat, RowKind::Decimal, [out, out, *digits])?;
                (made.constant, made.from) = (by.into(), F64);
            }
            _ => self.cast_time(out, &from, to)?,
        }
        Some(out)
    }

    /// Register `out`, a decimal, as a number of another kind.
    fn undecimal(&mut self, op: RowOp, kind: RowKind, out: u8, by: i128) -> Option<()> {
        let made = self.emit(op, kind, [out, out, 0])?;
        (made.constant, made.from) = (by, RowKind::Decimal);
        Some(())
    }

    fn float_to_float(&mut self, out: u8, from: RowKind, to: RowKind) -> Option<()> {
        if from != to {
            self.emit(RowOp::Plain(Op::Cast), to, [out, out, 0])?.from = from;
        }
        Some(())
    }
}
