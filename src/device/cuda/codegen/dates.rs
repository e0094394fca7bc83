//! Days of times, and the year, month and day of days. The interpreter's counterparts in `kernels/expr`: `floor_of` and
//! `date_part`.

use crate::device::cuda::codegen::ptx::{Text, Word};
use crate::device::cuda::codegen::registers::{Register, Rows};
use crate::device::cuda::codegen::translate::Machine;
use crate::device::cuda::runtime::kernel_cache::generated::Parameter;
use crate::ir::program::{FAR_DAYS, Instruction, Kind};

impl Machine<'_> {
    /// Rounds down to a multiple of a constant above zero.
    pub(crate) fn floor(&mut self, at: usize, instruction: &Instruction) -> Option<Register> {
        let a = self.register(instruction.a)?;
        let by = self.parameter(Parameter::Constant(at));
        let (Kind::I64, Rows::Longs(longs)) = (a.kind, &a.rows) else {
            return None;
        };
        let text = &mut self.text;
        let made = longs.iter().map(|long| {
            let quotient = text.long("div.s64", &[long, &by]);
            let rest = text.long("rem.s64", &[long, &by]);
            let below = text.long("shr.s64", &[&rest, &63]);
            text.long("add.s64", &[&quotient, &below])
        });
        let made = Register {
            kind: Kind::I64,
            rows: Rows::Longs(made.collect()),
            null: None,
            fault: None,
        };
        Some(made.with_states(text, &a, None, None))
    }

    /// The year, month or day of a number of days. Distant days are faults.
    pub(crate) fn part(&mut self, instruction: &Instruction) -> Option<Register> {
        let a = self.register(instruction.a)?;
        let text = &mut self.text;
        let mut faults = vec![];
        let days: Vec<Word> = match (a.kind, &a.rows) {
            (Kind::I32, Rows::Words(words)) => words.clone(),
            (Kind::I64, Rows::Longs(longs)) => {
                let days = longs.iter().map(|long| {
                    // Values beyond 32 bits are distant, too.
                    let least = text.long("max.s64", &[long, &i64::from(i32::MIN)]);
                    let clamped = text.long("min.s64", &[&least, &i64::from(i32::MAX)]);
                    text.word("cvt.u32.u64", &[&clamped])
                });
                days.collect()
            }
            _ => return None,
        };
        let parts = days.iter().map(|days| {
            let too_late = text.predicate("setp.gt.s32", &[days, &FAR_DAYS]);
            faults.push(text.predicate("setp.lt.or.s32", &[days, &-FAR_DAYS, &too_late]));
            date_part(text, *days, instruction.b)
        });
        let rows = Rows::Words(parts.collect());
        let faults = text.mask(&faults);
        let made = Register {
            kind: Kind::I32,
            rows,
            null: None,
            fault: None,
        };
        Some(made.with_states(text, &a, None, Some(faults)))
    }
}

/// Years begin in March here, so that a leap day is the last day of its year; an era has 400 years. All intermediate
/// values fit 32 bits.
fn date_part(text: &mut Text, days: Word, part: u8) -> Word {
    let days = text.word("add.s32", &[&days, &719_468]);
    let era = text.word("div.s32", &[&days, &146_097]);
    let rest = text.word("rem.s32", &[&days, &146_097]);
    let below = text.word("shr.s32", &[&rest, &31]);
    let era = text.word("add.s32", &[&era, &below]);
    let of_era = text.word("mad.lo.s32", &[&era, &-146_097, &days]);
    let mut year = of_era;
    for (name, by) in [
        ("sub.s32", 1_460),
        ("add.s32", 36_524),
        ("sub.s32", 146_096),
    ] {
        let leap = text.word("div.s32", &[&of_era, &by]);
        year = text.word(name, &[&year, &leap]);
    }
    let year = text.word("div.s32", &[&year, &365]);
    let in_days = text.word("mul.lo.s32", &[&year, &365]);
    let leap = text.word("div.s32", &[&year, &4]);
    let in_days = text.word("add.s32", &[&in_days, &leap]);
    let leap = text.word("div.s32", &[&year, &100]);
    let in_days = text.word("sub.s32", &[&in_days, &leap]);
    let of_year = text.word("sub.s32", &[&of_era, &in_days]);
    let march_month = text.word("mad.lo.s32", &[&of_year, &5, &2]);
    let march_month = text.word("div.s32", &[&march_month, &153]);
    if part > 1 {
        let before = text.word("mad.lo.s32", &[&march_month, &153, &2]);
        let before = text.word("div.s32", &[&before, &5]);
        let day = text.word("sub.s32", &[&of_year, &before]);
        return text.word("add.s32", &[&day, &1]);
    }
    let in_first = text.predicate("setp.lt.s32", &[&march_month, &10]);
    let to_month = text.word("selp.b32", &[&3, &-9, &in_first]);
    let month = text.word("add.s32", &[&march_month, &to_month]);
    if part == 1 {
        return month;
    }
    let year = text.word("mad.lo.s32", &[&era, &400, &year]);
    let is_next = text.predicate("setp.le.s32", &[&month, &2]);
    let next = text.word("selp.b32", &[&1, &0, &is_next]);
    text.word("add.s32", &[&year, &next])
}
