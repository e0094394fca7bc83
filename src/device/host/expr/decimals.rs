//! Decimal instructions of row programs, evaluated row by row.

use crate::device::host::expr::row_program::Machine;
use crate::device::host::expr::values::{round, whole, word_of};
use crate::device::host::theta::pair_program::register::VALUE;
use crate::device::host::theta::pair_program::registers::distinct;
use crate::ir::program::{Instruction, Kind, Op};

impl Machine {
    /// Arithmetic and comparisons of decimals with equal scales. A result beyond 128 bits and a division by zero are
    /// faults.
    pub(crate) fn decimal(&mut self, instruction: &Instruction, len: usize) {
        let Instruction {
            op, out, a, b, c, ..
        } = *instruction;
        if op == Op::IsNull || op == Op::IsNotNull {
            return self.registers.run(instruction, len);
        }
        let Self { wide, spare, .. } = self;
        let [x, y, z] = [a, b, c].map(|register| &wide[usize::from(register)]);
        if op == Op::Select {
            let condition = self.registers.get(a);
            for i in 0..len {
                let taken = condition.state(i) == VALUE && condition.words[i] == 1;
                spare[i] = if taken { y[i] } else { z[i] };
            }
            std::mem::swap(spare, &mut wide[usize::from(out)]);
            return self.registers.run(instruction, len);
        }
        if let Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem = op {
            self.registers.combine(out, &[a, b], len, |to, _| {
                for i in 0..len {
                    let result = match op {
                        Op::Add => x[i].checked_add(y[i]),
                        Op::Sub => x[i].checked_sub(y[i]),
                        Op::Mul => x[i].checked_mul(y[i]),
                        Op::Div => x[i].checked_div(y[i]),
                        _ => x[i].checked_rem(y[i]),
                    };
                    match result {
                        Some(result) => spare[i] = result,
                        None => to.set_fault(i, len),
                    }
                }
            });
            return std::mem::swap(spare, &mut wide[usize::from(out)]);
        }
        self.registers.combine(out, &[a, b], len, |to, registers| {
            for i in 0..len {
                let (x, y) = (x[i], y[i]);
                to.words[i] = u64::from(match op {
                    Op::Eq | Op::NotDistinct => x == y,
                    Op::NotEq | Op::Distinct => x != y,
                    Op::Lt => x < y,
                    Op::LtEq => x <= y,
                    Op::Gt => x > y,
                    _ => x >= y,
                });
            }
            if let Op::Distinct | Op::NotDistinct = op {
                let [a, b] = [a, b].map(|register| &registers[usize::from(register)]);
                distinct(a, b, to, len, op == Op::NotDistinct);
            }
        });
    }

    /// Converts decimals of 64 bits to integers or floats.
    pub(crate) fn undecimal(&mut self, instruction: &Instruction, len: usize) {
        let Instruction {
            op,
            kind,
            out,
            a,
            constant,
            ..
        } = *instruction;
        let decimals = &self.wide[usize::from(a)];
        let scale = f64::from_bits(constant as u64);
        self.registers.combine(out, &[a], len, |to, _| {
            for (i, decimal) in decimals.iter().enumerate().take(len) {
                let word = match op {
                    Op::Truncate => word_of(decimal / constant, kind),
                    _ => i64::try_from(*decimal)
                        .ok()
                        .map(|value| (value as f64 / scale).to_bits()),
                };
                match word {
                    Some(word) => to.words[i] = word,
                    None => to.set_fault(i, len),
                }
            }
        });
    }

    /// Converts to a decimal of another scale with at most `digits` digits (0: unlimited).
    pub(crate) fn rescale(&mut self, instruction: &Instruction, len: usize) {
        let Instruction {
            op,
            out,
            a,
            b: digits,
            constant,
            from,
            ..
        } = *instruction;
        let Self { wide, spare, .. } = self;
        let decimals = &wide[usize::from(a)];
        self.registers.combine(out, &[a], len, |to, registers| {
            let words = &registers[usize::from(a)].words;
            for i in 0..len {
                let value = match from {
                    Kind::Decimal => decimals[i],
                    Kind::F64 => 0,
                    Kind::U64 => words[i].into(),
                    _ => i128::from(words[i] as i64),
                };
                let scaled = match op {
                    Op::Scale => value.checked_mul(constant),
                    Op::FromFloat => {
                        let by = f64::from_bits(constant as u64);
                        whole((f64::from_bits(words[i]) * by).round())
                    }
                    _ => Some(round(value, constant)),
                };
                let fits = |v: &i128| digits == 0 || v.unsigned_abs() < 10u128.pow(digits.into());
                match scaled.filter(fits) {
                    Some(scaled) => spare[i] = scaled,
                    None => to.set_fault(i, len),
                }
            }
        });
        std::mem::swap(spare, &mut wide[usize::from(out)]);
    }
}
