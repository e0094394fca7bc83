//! The instructions of a program, one after the other, for all rows of a thread. Twin: `run` of `kernels/map.cu`.

use super::arithmetic::{arithmetic, compare};
use super::casts::{cast, negative};
use super::columns::{Stores, load, load_bits};
use super::decimals;
use super::layout::Place;
use super::masks::Mask;
use super::register::{Register, Rows};
use super::text::{Long, Text, Word};
use super::{Parameter, Shape};
use crate::spec::{FAR_DAYS, Kind, Op, RowInstruction, RowKind, RowOp};

/// What a kernel is while its text is written.
pub(super) struct Machine<'a> {
    pub text: Text,
    pub place: Place,
    shape: &'a Shape<'a>,
    parameters: Vec<Parameter>,
    columns: Vec<Option<Register>>,
    registers: Vec<Option<Register>>,
    /// Rows past the end are not.
    inside: Word,
    /// Rows for the host that reach an output.
    pub left: Mask,
    /// Outputs that may have NULLs.
    pub nullable: Vec<bool>,
}

impl Machine<'_> {
    /// A parameter's value.
    pub(super) fn parameter(&mut self, parameter: Parameter) -> Long {
        let at = self.parameters.len();
        self.parameters.push(parameter);
        self.text.long("ld.param.u64", &[&format_args!("[p{at}]")])
    }

    /// A parameter that is an address.
    pub(super) fn pointer(&mut self, parameter: Parameter) -> Long {
        let pointer = self.parameter(parameter);
        self.text.long("cvta.to.global.u64", &[&pointer])
    }

    pub(super) fn done(self) -> (Text, Vec<Parameter>) {
        (self.text, self.parameters)
    }
}

impl<'a> Machine<'a> {
    /// With the columns that the program loads. `tile` makes the number of the block's tile; its parameters come first.
    pub(super) fn new(
        shape: &'a Shape<'a>,
        layout: super::layout::Layout,
        tile: impl FnOnce(&mut Text) -> Word,
        parameters: Vec<Parameter>,
    ) -> Option<Self> {
        let mut text = Text::default();
        let tile = tile(&mut text);
        let rows = text.long("ld.param.u64", &[&"[p0]"]);
        let rows = text.word("cvt.u32.u64", &[&rows]);
        let place = Place::new(&mut text, layout, tile, rows);
        let inside = place.inside(&mut text);
        let program = shape.program;
        let mut machine = Self {
            text,
            place,
            shape,
            parameters,
            columns: vec![None; shape.columns.len()],
            registers: vec![None; program.registers()],
            inside,
            left: None,
            nullable: vec![false; program.outputs.len()],
        };
        // All loads are on their way before anything waits for one.
        for instruction in &program.instructions {
            if instruction.op == RowOp::Load {
                machine.load(instruction)?;
            }
        }
        Some(machine)
    }

    fn load(&mut self, instruction: &RowInstruction) -> Option<()> {
        let at = usize::from(instruction.column);
        if self.columns.get(at)?.is_some() {
            return Some(());
        }
        let (kind, nullable) = self.shape.columns[at];
        let values = self.pointer(Parameter::Column(at));
        let valid = nullable.then(|| self.pointer(Parameter::ColumnValidity(at)));
        let mut register = load(&mut self.text, &self.place, kind, values, None);
        if let Some(valid) = valid {
            let valid = load_bits(&mut self.text, &self.place, valid);
            register.null = Some(self.text.not(valid));
        }
        self.columns[at] = Some(register);
        Some(())
    }

    /// A column that the program loads too, without its states.
    pub(super) fn loaded(&self, column: usize) -> Option<&Register> {
        self.columns.get(column)?.as_ref()
    }

    fn register(&self, number: u8) -> Option<Register> {
        self.registers.get(usize::from(number))?.clone()
    }

    fn rows(&self) -> u32 {
        self.place.layout.rows()
    }

    /// What all instructions but stores do; `None` where one has no text.
    pub(super) fn run(&mut self, at: usize, instruction: &RowInstruction) -> Option<()> {
        let made = match (instruction.op, instruction.kind) {
            (RowOp::Store, _) => return Some(()),
            (RowOp::Load, _) => self.columns.get(usize::from(instruction.column))?.clone()?,
            (RowOp::Constant, kind) => self.constant(at, kind, instruction.b == 1),
            (RowOp::Plain(op), kind) => self.plain(op, kind, instruction)?,
            (RowOp::Scale, _) => self.scale(at, instruction)?,
            (RowOp::Floor, _) => self.floor(at, instruction)?,
            (RowOp::Part, _) => self.part(instruction)?,
            // It divides 128 bits.
            (RowOp::Round, _) => return None,
        };
        *self.registers.get_mut(usize::from(instruction.out))? = Some(made);
        Some(())
    }

    /// Constants are parameters, so that programs that differ in them alone are one kernel.
    fn constant(&mut self, at: usize, kind: RowKind, is_null: bool) -> Register {
        let count = self.rows() as usize;
        let lower = self.parameter(Parameter::Constant(at));
        let rows = match kind {
            RowKind::Plain(Kind::Bool) => {
                let word = self.text.word("cvt.u32.u64", &[&lower]);
                Rows::Bools(self.text.word("neg.s32", &[&word]))
            }
            RowKind::Plain(Kind::I64 | Kind::U64 | Kind::F64) => Rows::Longs(vec![lower; count]),
            RowKind::Plain(_) => {
                let word = self.text.word("cvt.u32.u64", &[&lower]);
                Rows::Words(vec![word; count])
            }
            RowKind::Decimal => {
                let upper = self.parameter(Parameter::ConstantUpper(at));
                Rows::Decimals(vec![[lower, upper]; count])
            }
        };
        let null = is_null.then(|| self.text.word("mov.u32", &[&"0xffffffff"]));
        Register {
            kind,
            rows,
            null,
            host: None,
        }
    }

    fn plain(&mut self, op: Op, kind: RowKind, instruction: &RowInstruction) -> Option<Register> {
        let a = self.register(instruction.a)?;
        match op {
            Op::IsNull | Op::IsNotNull => return Some(self.is_null(op, &a)),
            Op::Select => return self.select(kind, &a, instruction),
            Op::Not => {
                let mask = self.text.not(a.as_bools()?);
                return Some(Register::bools(mask).with_states(&mut self.text, &a, None, None));
            }
            Op::Neg | Op::Cast => {
                let RowKind::Plain(to) = kind else { return None };
                let from = if op == Op::Neg { kind } else { instruction.from };
                let (true, RowKind::Plain(from)) = (a.kind == from, from) else { return None };
                let rows = self.rows();
                let (rows, faults) = match op {
                    Op::Neg => (negative(&mut self.text, to, &a)?, None),
                    _ => cast(&mut self.text, from, to, &a, rows)?,
                };
                let made = Register { kind, rows, null: None, host: None };
                return Some(made.with_states(&mut self.text, &a, None, faults));
            }
            _ => {}
        }
        let b = self.register(instruction.b)?;
        if a.kind != kind || b.kind != kind {
            return None;
        }
        match op {
            Op::And => self.kleene(&a, &b, false),
            Op::Or => self.kleene(&a, &b, true),
            Op::Distinct | Op::NotDistinct => self.distinct(op, kind, &a, &b),
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Rem => self.arithmetic(op, kind, &a, &b),
            _ => {
                let mask = compare(&mut self.text, op, kind, &a, &b)?;
                Some(Register::bools(mask).with_states(&mut self.text, &a, Some(&b), None))
            }
        }
    }

    fn arithmetic(&mut self, op: Op, kind: RowKind, a: &Register, b: &Register) -> Option<Register> {
        let text = &mut self.text;
        let (rows, faults) = match (kind, &a.rows, &b.rows) {
            (RowKind::Plain(kind), ..) => arithmetic(text, op, kind, a, b)?,
            (_, Rows::Decimals(x), Rows::Decimals(y)) => {
                let rows = x.iter().zip(y);
                let made = rows.map(|(x, y)| decimals::arithmetic(text, op, *x, *y));
                let (made, faults): (Vec<_>, Vec<_>) = made.collect::<Option<Vec<_>>>()?.into_iter().unzip();
                (Rows::Decimals(made), Some(text.mask(&faults)))
            }
            _ => return None,
        };
        let made = Register { kind, rows, null: None, host: None };
        Some(made.with_states(text, a, Some(b), faults))
    }

    /// AND, where false decides, or OR, where true does. Where the left operand alone decides, the right one is not asked.
    fn kleene(&mut self, a: &Register, b: &Register, decides: bool) -> Option<Register> {
        let text = &mut self.text;
        let (mask_a, mask_b) = (a.as_bools()?, b.as_bools()?);
        let name = if decides { "or.b32" } else { "and.b32" };
        let mask = text.word(name, &[&mask_a, &mask_b]);
        if [a.null, a.host, b.null, b.host].iter().all(Option::is_none) {
            return Some(Register::bools(mask));
        }
        let mut decided = [mask_a, mask_b].map(|mask| if decides { mask } else { text.not(mask) });
        for (decided, of) in decided.iter_mut().zip([a, b]) {
            *decided = text.without(Some(*decided), of.null)?;
            *decided = text.without(Some(*decided), of.host)?;
        }
        let [by_a, by_b] = decided;
        let host = text.or(a.host, b.host);
        let host = text.without(host, Some(by_a));
        let by_b = text.without(Some(by_b), host);
        let decided = text.or(Some(by_a), by_b)?;
        let null = text.or(a.null, b.null);
        let null = text.without(null, Some(decided));
        let null = text.without(null, host);
        // Where nothing decides all values are the other one.
        let mask = if decides { decided } else { text.not(decided) };
        Some(Register { null, host, ..Register::bools(mask) })
    }

    /// `b` where `a` is true, otherwise `c`, with its state.
    fn select(&mut self, kind: RowKind, a: &Register, instruction: &RowInstruction) -> Option<Register> {
        let (b, c) = (self.register(instruction.b)?, self.register(instruction.c)?);
        if b.kind != kind || c.kind != kind {
            return None;
        }
        let text = &mut self.text;
        let taken = a.is_true(text)?;
        let rows = match (&b.rows, &c.rows) {
            (Rows::Bools(b), Rows::Bools(c)) => Rows::Bools(text.choose(taken, Some(*b), Some(*c))?),
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
        let host = text.choose(taken, b.host, c.host);
        let host = text.or(a.host, host);
        let null = text.choose(taken, b.null, c.null);
        let null = text.without(null, a.host);
        Some(Register { kind, rows, null, host })
    }

    fn is_null(&mut self, op: Op, a: &Register) -> Register {
        let null = match a.null {
            Some(null) => null,
            None => self.text.word("mov.u32", &[&0]),
        };
        let mask = match op {
            Op::IsNull => null,
            _ => self.text.not(null),
        };
        Register { host: a.host, ..Register::bools(mask) }
    }

    /// Two NULLs are not distinct.
    fn distinct(&mut self, op: Op, kind: RowKind, a: &Register, b: &Register) -> Option<Register> {
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
        let host = text.or(a.host, b.host);
        Some(Register { host, ..Register::bools(mask) })
    }

    fn scale(&mut self, at: usize, instruction: &RowInstruction) -> Option<Register> {
        let a = self.register(instruction.a)?;
        if a.kind != instruction.from {
            return None;
        }
        let by = [
            self.parameter(Parameter::Constant(at)),
            self.parameter(Parameter::ConstantUpper(at)),
        ];
        let text = &mut self.text;
        let values: Vec<decimals::Halves> = match (&a.rows, instruction.from) {
            (Rows::Decimals(halves), _) => halves.clone(),
            (Rows::Words(words), RowKind::Plain(kind)) if !kind.is_float() => {
                words.iter().map(|word| decimals::of_word(text, kind, *word)).collect()
            }
            (Rows::Longs(longs), RowKind::Plain(kind)) if !kind.is_float() => {
                longs.iter().map(|long| decimals::of_long(text, kind, *long)).collect()
            }
            _ => return None,
        };
        let made = values.into_iter().map(|value| {
            let (made, fault) = decimals::product(text, value, by);
            match instruction.b {
                0 => (made, fault),
                digits => (made, decimals::too_long(text, made, digits, fault)),
            }
        });
        let (made, faults): (Vec<_>, Vec<_>) = made.unzip();
        let faults = text.mask(&faults);
        let made = Register {
            kind: RowKind::Decimal,
            rows: Rows::Decimals(made),
            null: None,
            host: None,
        };
        Some(made.with_states(text, &a, None, Some(faults)))
    }

    /// Down to a multiple of a constant, which is above zero.
    fn floor(&mut self, at: usize, instruction: &RowInstruction) -> Option<Register> {
        let a = self.register(instruction.a)?;
        let by = self.parameter(Parameter::Constant(at));
        let (RowKind::Plain(Kind::I64), Rows::Longs(longs)) = (a.kind, &a.rows) else {
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
            kind: RowKind::Plain(Kind::I64),
            rows: Rows::Longs(made.collect()),
            null: None,
            host: None,
        };
        Some(made.with_states(text, &a, None, None))
    }

    /// The year, the month or the day of a number of days.
    fn part(&mut self, instruction: &RowInstruction) -> Option<Register> {
        let a = self.register(instruction.a)?;
        let text = &mut self.text;
        let mut faults = vec![];
        let days: Vec<Word> = match (a.kind, &a.rows) {
            (RowKind::Plain(Kind::I32), Rows::Words(words)) => words.clone(),
            (RowKind::Plain(Kind::I64), Rows::Longs(longs)) => {
                let days = longs.iter().map(|long| {
                    // Those that 32 bits do not hold are far, too.
                    let least = text.long("max.s64", &[long, &i64::from(i32::MIN)]);
                    let clamped = text.long("min.s64", &[&least, &i64::from(i32::MAX)]);
                    text.word("cvt.u32.u64", &[&clamped])
                });
                days.collect()
            }
            _ => return None,
        };
        let parts = days.iter().map(|days| {
            let late = text.predicate("setp.gt.s32", &[days, &FAR_DAYS]);
            faults.push(text.predicate("setp.lt.or.s32", &[days, &-FAR_DAYS, &late]));
            date_part(text, *days, instruction.b)
        });
        let rows = Rows::Words(parts.collect());
        let faults = text.mask(&faults);
        let made = Register {
            kind: RowKind::Plain(Kind::I32),
            rows,
            null: None,
            host: None,
        };
        Some(made.with_states(text, &a, None, Some(faults)))
    }

    /// Writes an output.
    pub(super) fn store(&mut self, stores: &Stores, instruction: &RowInstruction) -> Option<()> {
        let output = usize::from(instruction.column);
        let register = self.register(instruction.a)?;
        let kind = RowKind::of(self.shape.program.outputs.get(output)?)?;
        if register.kind != kind {
            return None;
        }
        let values = self.pointer(Parameter::Output(output));
        let valid = register.null.is_some().then(|| self.pointer(Parameter::OutputValidity(output)));
        self.leave(&register);
        let Self { text, place, inside, .. } = self;
        if let Rows::Bools(mask) = register.rows {
            let mask = text.word("and.b32", &[&mask, inside]);
            stores.bits(text, place, mask, values);
        }
        stores.values(text, place, &register, values);
        if let Some(valid) = valid {
            let mask = text.without(Some(*inside), register.null)?;
            stores.bits(text, place, mask, valid);
            self.nullable[output] = true;
        }
        Some(())
    }

    /// Which rows pass, of a program whose only output is a predicate.
    pub(super) fn passing(&mut self, instruction: &RowInstruction) -> Option<Word> {
        let register = self.register(instruction.a)?;
        self.leave(&register);
        let passing = register.is_true(&mut self.text);
        self.text.and(passing, Some(self.inside))
    }

    fn leave(&mut self, register: &Register) {
        let left = self.text.and(register.host, Some(self.inside));
        self.left = self.text.or(self.left, left);
    }
}

/// Years begin in March here, so that the day which some lack is the last one; eras have 400 of them. All of it fits 32 bits.
fn date_part(text: &mut Text, days: Word, part: u8) -> Word {
    let days = text.word("add.s32", &[&days, &719_468]);
    let era = text.word("div.s32", &[&days, &146_097]);
    let rest = text.word("rem.s32", &[&days, &146_097]);
    let below = text.word("shr.s32", &[&rest, &31]);
    let era = text.word("add.s32", &[&era, &below]);
    let of_era = text.word("mad.lo.s32", &[&era, &-146_097, &days]);
    let mut year = of_era;
    for (name, by) in [("sub.s32", 1_460), ("add.s32", 36_524), ("sub.s32", 146_096)] {
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

/// Bytes of all values of a row that a program loads and makes, and of the widest.
pub(super) fn widths(shape: &Shape<'_>) -> Option<(u32, u32)> {
    let Shape { program, columns } = shape;
    let loads = program.instructions.iter().filter(|i| i.op == RowOp::Load);
    let mut loaded: Vec<usize> = loads.map(|load| usize::from(load.column)).collect();
    loaded.sort_unstable();
    loaded.dedup();
    let loaded = loaded.into_iter().map(|at| Some(columns.get(at)?.0));
    let kinds = loaded.chain(program.outputs.iter().map(RowKind::of));
    let (mut all, mut widest) = (0, 1);
    for kind in kinds {
        let bytes = super::register::bytes(kind?);
        all += bytes;
        widest = bytes.max(widest);
    }
    Some((all, widest))
}
