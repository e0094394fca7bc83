//! Arithmetic and casts of decimals, and other casts, in row programs.

use arrow::datatypes::DataType;

use crate::ir::program::{Kind, Op};
use crate::plan::compile::compiler::{Compiler, Expr};
use crate::plan::compile::row_program::Rows;

/// Most digits of a decimal of 128 bits, and most digits after its point.
const MAX_DIGITS: u8 = 38;
const MAX_SCALE: i8 = 38;

impl Compiler<'_, Rows> {
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
                self.scale(*register, Kind::Decimal, up, 0)?;
            }
        }
        let [a, b] = registers;
        self.emit(op, Kind::Decimal, [a, a, b])?;
        Some(a)
    }

    /// Register `out` times ten to the power of `up`, of at most `digits` digits, unless that is 0.
    fn scale(&mut self, out: u8, from: Kind, up: i8, digits: u8) -> Option<()> {
        let factor = ten_to(up)?;
        let instruction = self.emit(Op::Scale, Kind::Decimal, [out, out, digits])?;
        (instruction.constant, instruction.from) = (factor, from);
        Some(())
    }

    /// Casts between numbers and decimals, and between dates and times.
    pub(crate) fn cast_other(&mut self, out: u8, from: &DataType, to: &DataType) -> Option<()> {
        match (from, to) {
            (from, DataType::Decimal128(digits, scale)) if from.is_integer() && *scale >= 0 => {
                self.scale(out, Kind::of(from)?, *scale, *digits)?;
            }
            (DataType::Decimal128(_, s), DataType::Decimal128(digits, t)) => {
                let up = t.checked_sub(*s)?;
                match up >= 0 {
                    true => self.scale(out, Kind::Decimal, up, *digits)?,
                    false => {
                        let by = ten_to(-up)?;
                        self.emit(Op::Round, Kind::Decimal, [out, out, *digits])?
                            .constant = by;
                    }
                }
            }
            (DataType::Decimal128(_, scale), to) if to.is_integer() && *scale >= 0 => {
                let by = ten_to(*scale)?;
                self.undecimal(Op::Truncate, Kind::of(to)?, out, by)?;
            }
            (DataType::Decimal128(_, scale), DataType::Float32 | DataType::Float64)
                if *scale >= 0 =>
            {
                let by = 10f64.powi((*scale).into()).to_bits();
                self.undecimal(Op::ToFloat, Kind::F64, out, by.into())?;
                self.float_to_float(out, Kind::F64, Kind::of(to)?)?;
            }
            (from, DataType::Decimal128(digits, scale))
                if matches!(from, DataType::Float32 | DataType::Float64) && *scale >= 0 =>
            {
                self.float_to_float(out, Kind::of(from)?, Kind::F64)?;
                let by = 10f64.powi((*scale).into()).to_bits();
                let made = self.emit(Op::FromFloat, Kind::Decimal, [out, out, *digits])?;
                (made.constant, made.from) = (by.into(), Kind::F64);
            }
            _ => self.cast_time(out, from, to)?,
        }
        Some(())
    }

    /// Register `out`, a decimal, as a number of another kind.
    fn undecimal(&mut self, op: Op, kind: Kind, out: u8, by: i128) -> Option<()> {
        let made = self.emit(op, kind, [out, out, 0])?;
        (made.constant, made.from) = (by, Kind::Decimal);
        Some(())
    }

    fn float_to_float(&mut self, out: u8, from: Kind, to: Kind) -> Option<()> {
        match from == to {
            true => Some(()),
            false => self.convert(out, from, to),
        }
    }
}

fn ten_to(power: i8) -> Option<i128> {
    let power = u8::try_from(power).ok().filter(|p| *p <= MAX_DIGITS)?;
    Some(10i128.pow(power.into()))
}
