//! Codes of a column that a program loads, as values: the least value, a constant of the instruction, is added to each.

use crate::device::cuda::codegen::ptx::{Long, Text};
use crate::device::cuda::codegen::registers::{Register, Rows, bits, is_signed, lengthened};
use crate::device::cuda::codegen::translate::Machine;
use crate::device::cuda::runtime::kernel_cache::generated::Parameter;
use crate::ir::program::{Instruction, Kind};

impl Machine<'_> {
    /// The values of codes.
    pub(crate) fn decoded(
        &mut self,
        at: usize,
        instruction: &Instruction,
        codes: Register,
    ) -> Option<Register> {
        let kind = instruction.kind;
        if codes.kind != instruction.from || is_signed(codes.kind) {
            return None;
        }
        let least = self.parameter(Parameter::Constant(at));
        let rows = match kind {
            Kind::Decimal => {
                let upper = self.parameter(Parameter::ConstantUpper(at));
                let codes = longs_of(&mut self.text, &codes)?;
                let text = &mut self.text;
                let values = codes.iter().map(|code| {
                    [
                        text.long("add.cc.u64", &[code, &least]),
                        text.long("addc.u64", &[&0, &upper]),
                    ]
                });
                Rows::Decimals(values.collect())
            }
            kind if bits(kind) == 64 && !kind.is_float() => {
                let codes = longs_of(&mut self.text, &codes)?;
                let text = &mut self.text;
                let values = codes.iter();
                let values = values.map(|code| text.long("add.s64", &[code, &least]));
                Rows::Longs(values.collect())
            }
            kind if bits(kind) <= 32 && !kind.is_float() => {
                let Rows::Words(codes) = &codes.rows else {
                    return None;
                };
                let text = &mut self.text;
                let least = text.word("cvt.u32.u64", &[&least]);
                let values = codes.iter();
                let values = values.map(|code| text.word("add.s32", &[code, &least]));
                Rows::Words(values.collect())
            }
            _ => return None,
        };
        Some(Register {
            kind,
            rows,
            ..codes
        })
    }
}

/// Codes of 64 bits.
fn longs_of(text: &mut Text, codes: &Register) -> Option<Vec<Long>> {
    match &codes.rows {
        Rows::Longs(longs) => Some(longs.clone()),
        Rows::Words(words) => {
            let longs = words.iter();
            let longs = longs.map(|word| lengthened(text, codes.kind, *word));
            Some(longs.collect())
        }
        Rows::Bools(_) | Rows::Decimals(_) => None,
    }
}
