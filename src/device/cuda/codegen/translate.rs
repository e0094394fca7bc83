//! Translates the instructions of a program in order, each for all rows of a thread. The interpreter's counterpart:
//! `run` of `kernels/expr/map.cu`.

use crate::device::cuda::codegen::arithmetic::{arithmetic, compare};
use crate::device::cuda::codegen::casts::{cast, negative};
use crate::device::cuda::codegen::columns::{Stores, Units};
use crate::device::cuda::codegen::decimals;
use crate::device::cuda::codegen::layout::Place;
use crate::device::cuda::codegen::ptx::{Long, Text, Word};
use crate::device::cuda::codegen::registers::{Register, Rows, bytes};
use crate::device::cuda::codegen::row_masks::Mask;
use crate::device::cuda::codegen::shape::Shape;
use crate::device::cuda::runtime::kernel_cache::generated::Parameter;
use crate::ir::program::{Instruction, Kind, Op};
use crate::ir::row_program::RowProgram;

/// The state of a kernel's translation.
pub(crate) struct Machine<'a> {
    pub text: Text,
    pub place: Place,
    shape: &'a Shape<'a>,
    parameters: Vec<Parameter>,
    sources: Vec<Option<Source>>,
    columns: Vec<Option<Register>>,
    registers: Vec<Option<Register>>,
    /// The rows before the end.
    inside: Mask,
    /// Faults that reach an output.
    pub faults: Mask,
    /// Whether each output may have NULLs.
    pub nullable: Vec<bool>,
}

/// A column that a program loads: the address of its values and, if it has NULLs, of its bitmap, with the registers
/// that receive them.
struct Source {
    kind: Kind,
    values: (Long, Units),
    valid: Option<(Long, Units)>,
}

impl<'a> Machine<'a> {
    /// The value of a new parameter.
    pub(crate) fn parameter(&mut self, parameter: Parameter) -> Long {
        let at = self.parameters.len();
        self.parameters.push(parameter);
        self.text.long("ld.param.u64", &[&format_args!("[p{at}]")])
    }

    /// The value of a new parameter that is an address.
    pub(crate) fn pointer(&mut self, parameter: Parameter) -> Long {
        let pointer = self.parameter(parameter);
        self.text.long("cvta.to.global.u64", &[&pointer])
    }

    pub(crate) fn program(&self) -> &'a RowProgram {
        self.shape.program
    }

    /// The text and its parameters in order.
    pub(crate) fn done(self) -> (Text, Vec<Parameter>) {
        (self.text, self.parameters)
    }
}

impl<'a> Machine<'a> {
    /// A translation for the rows at `place`, whose columns are to be loaded. `parameters`: those that `text` already
    /// has.
    pub(crate) fn new(
        shape: &'a Shape<'a>,
        text: Text,
        place: Place,
        parameters: Vec<Parameter>,
    ) -> Option<Self> {
        let program = shape.program;
        let mut machine = Self {
            text,
            place,
            shape,
            parameters,
            sources: vec![],
            columns: vec![None; shape.columns.len()],
            registers: vec![None; program.registers()],
            inside: None,
            faults: None,
            nullable: vec![false; program.outputs.len()],
        };
        let loads = loads(program);
        for (at, (kind, nullable)) in shape.columns.iter().enumerate() {
            let source = match loads.contains(&at) {
                true => Some(machine.source(at, *kind, *nullable)),
                false => None,
            };
            machine.sources.push(source);
        }
        match loads.iter().all(|at| *at < shape.columns.len()) {
            true => Some(machine),
            false => None,
        }
    }

    fn source(&mut self, at: usize, kind: Kind, nullable: bool) -> Source {
        let layout = self.place.layout;
        let values = self.pointer(Parameter::Column(at));
        let values = (values, Units::new(&mut self.text, layout, kind));
        let valid = nullable.then(|| {
            let valid = self.pointer(Parameter::ColumnValidity(at));
            let bits = Kind::Bool;
            (valid, Units::new(&mut self.text, layout, bits))
        });
        Source {
            kind,
            values,
            valid,
        }
    }

    /// Loads all columns of the rows at `place`. All loads are issued before the first use.
    pub(crate) fn load(&mut self, place: &Place) {
        for source in self.sources.iter().flatten() {
            for (from, units) in [&source.values].into_iter().chain(&source.valid) {
                units.load(&mut self.text, place, *from, None);
            }
        }
    }

    /// Makes the rows at `place`, whose columns were loaded, the current ones.
    pub(crate) fn take(&mut self, place: Place) {
        let text = &mut self.text;
        self.inside = Some(place.inside(text));
        for (column, source) in self.columns.iter_mut().zip(&self.sources) {
            *column = source.as_ref().map(|source| Register {
                kind: source.kind,
                rows: source.values.1.rows(text, &place),
                null: match source
                    .valid
                    .as_ref()
                    .map(|(_, bits)| bits.rows(text, &place))
                {
                    Some(Rows::Bools(valid)) => Some(text.not(valid)),
                    _ => None,
                },
                fault: None,
            });
        }
        self.place = place;
    }

    /// The kind of a column.
    pub(crate) fn kind(&self, column: usize) -> Option<Kind> {
        Some(self.shape.columns.get(column)?.0)
    }

    /// A column that the program loads, without states.
    pub(crate) fn loaded(&self, column: usize) -> Option<&Register> {
        self.columns.get(column)?.as_ref()
    }

    /// The contents of a register of the program; `None` if no instruction has set it.
    pub(crate) fn register(&self, number: u8) -> Option<Register> {
        self.registers.get(usize::from(number))?.clone()
    }

    fn rows(&self) -> u32 {
        self.place.layout.rows()
    }

    /// Translates any instruction but a store; `None` if only the interpreter has it.
    pub(crate) fn run(&mut self, at: usize, instruction: &Instruction) -> Option<()> {
        let kind = instruction.kind;
        let made = match instruction.op {
            Op::Store => return Some(()),
            Op::Load => {
                let loaded = self.columns.get(usize::from(instruction.column))?;
                let loaded = loaded.clone()?;
                match instruction.loads_codes() {
                    true => self.decoded(at, instruction, loaded)?,
                    false => loaded,
                }
            }
            Op::Constant => self.constant(at, kind, instruction.b == 1),
            Op::Scale => self.scale(at, instruction)?,
            Op::Floor => self.floor(at, instruction)?,
            Op::Part => self.part(instruction)?,
            // They divide 128 bits, or are rare.
            Op::Round | Op::Truncate | Op::ToFloat | Op::FromFloat => return None,
            op => self.plain(op, kind, instruction)?,
        };
        *self.registers.get_mut(usize::from(instruction.out))? = Some(made);
        Some(())
    }

    /// Constants are parameters, so that programs that differ only in constants share a kernel.
    fn constant(&mut self, at: usize, kind: Kind, is_null: bool) -> Register {
        let count = self.rows() as usize;
        let lower = self.parameter(Parameter::Constant(at));
        let rows = match kind {
            Kind::Bool => {
                let word = self.text.word("cvt.u32.u64", &[&lower]);
                Rows::Bools(self.text.word("neg.s32", &[&word]))
            }
            Kind::I64 | Kind::U64 | Kind::F64 => Rows::Longs(vec![lower; count]),
            Kind::Decimal => {
                let upper = self.parameter(Parameter::ConstantUpper(at));
                Rows::Decimals(vec![[lower, upper]; count])
            }
            _ => {
                let word = self.text.word("cvt.u32.u64", &[&lower]);
                Rows::Words(vec![word; count])
            }
        };
        let null = is_null.then(|| self.text.word("mov.u32", &[&"0xffffffff"]));
        Register {
            kind,
            rows,
            null,
            fault: None,
        }
    }

    fn plain(&mut self, op: Op, kind: Kind, instruction: &Instruction) -> Option<Register> {
        let a = self.register(instruction.a)?;
        match op {
            Op::IsNull | Op::IsNotNull => return Some(self.is_null(op, &a)),
            Op::Select => return self.select(kind, &a, instruction),
            Op::Not => {
                let mask = self.text.not(a.as_bools()?);
                return Some(Register::bools(mask).with_states(&mut self.text, &a, None, None));
            }
            Op::Neg | Op::Cast => {
                let from = if op == Op::Neg {
                    kind
                } else {
                    instruction.from
                };
                if a.kind != from || kind == Kind::Decimal {
                    return None;
                }
                let rows = self.rows();
                let (rows, faults) = match op {
                    Op::Neg => (negative(&mut self.text, kind, &a)?, None),
                    _ => cast(&mut self.text, from, kind, &a, rows)?,
                };
                let made = Register {
                    kind,
                    rows,
                    null: None,
                    fault: None,
                };
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

    fn arithmetic(&mut self, op: Op, kind: Kind, a: &Register, b: &Register) -> Option<Register> {
        let text = &mut self.text;
        let (rows, faults) = match (&a.rows, &b.rows) {
            (Rows::Decimals(x), Rows::Decimals(y)) => {
                let rows = x.iter().zip(y);
                let made = rows.map(|(x, y)| decimals::arithmetic(text, op, *x, *y));
                let (made, faults): (Vec<_>, Vec<_>) =
                    made.collect::<Option<Vec<_>>>()?.into_iter().unzip();
                (Rows::Decimals(made), Some(text.mask(&faults)))
            }
            _ => arithmetic(text, op, kind, a, b)?,
        };
        let made = Register {
            kind,
            rows,
            null: None,
            fault: None,
        };
        Some(made.with_states(text, a, Some(b), faults))
    }

    fn scale(&mut self, at: usize, instruction: &Instruction) -> Option<Register> {
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
            (Rows::Words(words), kind) if !kind.is_float() => words
                .iter()
                .map(|word| decimals::of_word(text, kind, *word))
                .collect(),
            (Rows::Longs(longs), kind) if !kind.is_float() => longs
                .iter()
                .map(|long| decimals::of_long(text, kind, *long))
                .collect(),
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
            kind: Kind::Decimal,
            rows: Rows::Decimals(made),
            null: None,
            fault: None,
        };
        Some(made.with_states(text, &a, None, Some(faults)))
    }

    /// Writes an output.
    pub(crate) fn store(&mut self, stores: &Stores, instruction: &Instruction) -> Option<()> {
        let output = usize::from(instruction.column);
        let register = self.register(instruction.a)?;
        let kind = Kind::of(self.shape.program.outputs.get(output)?)?;
        if register.kind != kind {
            return None;
        }
        let values = self.pointer(Parameter::Output(output));
        let valid = register
            .null
            .is_some()
            .then(|| self.pointer(Parameter::OutputValidity(output)));
        self.add_faults(&register);
        let Self {
            text,
            place,
            inside,
            ..
        } = self;
        if let Rows::Bools(mask) = register.rows {
            let mask = text.and(Some(mask), *inside)?;
            stores.bits(text, place, mask, values);
        }
        stores.values(text, place, &register, values);
        if let Some(valid) = valid {
            let mask = text.without(*inside, register.null)?;
            stores.bits(text, place, mask, valid);
            self.nullable[output] = true;
        }
        Some(())
    }

    /// The rows that pass, for a program whose only output is a predicate.
    pub(crate) fn passing(&mut self, instruction: &Instruction) -> Option<Word> {
        let register = self.register(instruction.a)?;
        self.add_faults(&register);
        let passing = register.is_true(&mut self.text);
        self.text.and(passing, self.inside)
    }

    /// The part of `rows` before the end.
    pub(crate) fn inside(&mut self, rows: Word) -> Option<Word> {
        self.text.and(Some(rows), self.inside)
    }

    fn add_faults(&mut self, register: &Register) {
        self.add_faulty_rows(register.fault);
    }

    /// Marks rows as faults that reach an output or its predicate.
    pub(crate) fn add_faulty_rows(&mut self, rows: Mask) {
        let faults = self.text.and(rows, self.inside);
        self.faults = self.text.or(self.faults, faults);
    }
}

/// The columns that a program loads.
pub(crate) fn loads(program: &RowProgram) -> Vec<usize> {
    let loads = program.instructions.iter().filter(|i| i.op == Op::Load);
    let mut loaded: Vec<usize> = loads.map(|load| usize::from(load.column)).collect();
    loaded.sort_unstable();
    loaded.dedup();
    loaded
}

/// The bytes of all values of a row that a program loads and computes, and the bytes of the widest value in memory.
pub(crate) fn widths(shape: &Shape<'_>) -> Option<(u32, u32)> {
    let Shape { program, columns } = shape;
    let (mut all, mut widest) = (0, 1);
    for at in loads(program) {
        let kind = columns.get(at)?.0;
        let loads = program.instructions.iter();
        let loads = loads.filter(|i| i.op == Op::Load && usize::from(i.column) == at);
        // Codes are values in registers.
        all += loads.map(|i| bytes(i.kind)).fold(bytes(kind), u32::max);
        widest = bytes(kind).max(widest);
    }
    for output in &program.outputs {
        let bytes = bytes(Kind::of(output)?);
        all += bytes;
        widest = bytes.max(widest);
    }
    Some((all, widest))
}
