//! Instructions that depend on states: AND and OR, selection, NULL tests.

use crate::device::cuda::codegen::arithmetic::compare;
use crate::device::cuda::codegen::registers::{Register, Rows};
use crate::device::cuda::codegen::translate::Machine;
use crate::ir::program::{Instruction, Kind, Op};

impl Machine<'_> {
    /// AND if `decides` is false, OR if it is true: the value of an operand that decides the result. If the left
    /// operand decides, the right one is not evaluated.
    pub(crate) fn kleene(&mut self, a: &Register, b: &Register, decides: bool) -> Option<Register> {
        let text = &mut self.text;
        let (mask_a, mask_b) = (a.as_bools()?, b.as_bools()?);
        let name = if decides { "or.b32" } else { "and.b32" };
        let mask = text.word(name, &[&mask_a, &mask_b]);
        if [a.null, a.fault, b.null, b.fault]
            .iter()
            .all(Option::is_none)
        {
            return Some(Register::bools(mask));
        }
        let mut decided = [mask_a, mask_b].map(|mask| if decides { mask } else { text.not(mask) });
        for (decided, of) in decided.iter_mut().zip([a, b]) {
            *decided = text.without(Some(*decided), of.null)?;
            *decided = text.without(Some(*decided), of.fault)?;
        }
        let [by_a, by_b] = decided;
        let fault = text.or(a.fault, b.fault);
        let fault = text.without(fault, Some(by_a));
        let by_b = text.without(Some(by_b), fault);
        let decided = text.or(Some(by_a), by_b)?;
        let null = text.or(a.null, b.null);
        let null = text.without(null, Some(decided));
        let null = text.without(null, fault);
        // Where no operand decides, the result is the other value.
        let mask = if decides { decided } else { text.not(decided) };
        Some(Register {
            null,
            fault,
            ..Register::bools(mask)
        })
    }

    /// `b` where `a` is true, otherwise `c`; values and states.
    pub(crate) fn select(
        &mut self,
        kind: Kind,
        a: &Register,
        instruction: &Instruction,
    ) -> Option<Register> {
        let (b, c) = (self.register(instruction.b)?, self.register(instruction.c)?);
        if b.kind != kind || c.kind != kind {
            return None;
        }
        let text = &mut self.text;
        let taken = a.is_true(text)?;
        let rows = match (&b.rows, &c.rows) {
            (Rows::Bools(b), Rows::Bools(c)) => {
                Rows::Bools(text.choose(taken, Some(*b), Some(*c))?)
            }
            (Rows::Words(b), Rows::Words(c)) => {
                let rows = (0..).zip(b.iter().zip(c)).map(|(k, (b, c))| {
                    let row = text.bit(taken, k);
                    text.word("selp.b32", &[b, c, &row])
                });
                Rows::Words(rows.collect())
            }
            (Rows::Longs(b), Rows::Longs(c)) => {
                let rows = (0..).zip(b.iter().zip(c)).map(|(k, (b, c))| {
                    let row = text.bit(taken, k);
                    text.long("selp.b64", &[b, c, &row])
                });
                Rows::Longs(rows.collect())
            }
            (Rows::Decimals(b), Rows::Decimals(c)) => {
                let rows = (0..).zip(b.iter().zip(c)).map(|(k, (b, c))| {
                    let row = text.bit(taken, k);
                    [0, 1].map(|half| text.long("selp.b64", &[&b[half], &c[half], &row]))
                });
                Rows::Decimals(rows.collect())
            }
            _ => return None,
        };
        let fault = text.choose(taken, b.fault, c.fault);
        let fault = text.or(a.fault, fault);
        let null = text.choose(taken, b.null, c.null);
        let null = text.without(null, a.fault);
        Some(Register {
            kind,
            rows,
            null,
            fault,
        })
    }

    /// IS NULL or IS NOT NULL.
    pub(crate) fn is_null(&mut self, op: Op, a: &Register) -> Register {
        let null = match a.null {
            Some(null) => null,
            None => self.text.word("mov.u32", &[&0]),
        };
        let mask = match op {
            Op::IsNull => null,
            _ => self.text.not(null),
        };
        Register {
            fault: a.fault,
            ..Register::bools(mask)
        }
    }

    /// DISTINCT or NOT DISTINCT: two NULLs are not distinct.
    pub(crate) fn distinct(
        &mut self,
        op: Op,
        kind: Kind,
        a: &Register,
        b: &Register,
    ) -> Option<Register> {
        let mut same = compare(&mut self.text, Op::Eq, kind, a, b)?;
        let text = &mut self.text;
        if let Some(either) = text.or(a.null, b.null) {
            let both = text.and(a.null, b.null);
            let values = text.without(Some(same), Some(either));
            same = text.or(both, values)?;
        }
        let mask = match op {
            Op::NotDistinct => same,
            _ => text.not(same),
        };
        let fault = text.or(a.fault, b.fault);
        Some(Register {
            fault,
            ..Register::bools(mask)
        })
    }
}
