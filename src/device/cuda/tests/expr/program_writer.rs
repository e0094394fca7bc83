//! Random row programs of all kinds.

use arrow::datatypes::Decimal128Type;

use crate::device::cuda::tests::theta::pair_program::{
    BOOLEAN_OPS, KINDS, is_unary, takes_booleans,
};
use crate::device::cuda::tests::{Random, *};
use crate::ir::program::{Instruction, Kind, Op};

pub(crate) const DECIMAL: DataType = DataType::Decimal128(38, 2);

/// Small decimals, and in some columns values at the limits of 128 bits.
pub(crate) fn decimals(random: &mut Random, rows: usize) -> ArrayRef {
    let extremes = random.below(3) == 0;
    let values: Vec<i128> = (0..rows)
        .map(|_| match random.below(8) {
            0 if extremes => {
                [i128::MAX, i128::MIN, 1 << 64, -(1 << 63), 1 << 126][random.below(5) as usize]
            }
            1 => i128::from(random.next() as i64) << random.below(30),
            _ => i128::from(random.below(200)) - 100,
        })
        .collect();
    let nulls = random.below(3) as usize;
    let nulls = random.nulls(rows, if nulls == 1 { 0 } else { nulls });
    let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
    Arc::new(array.with_data_type(DECIMAL))
}

/// Writes programs whose registers are used as a stack. Column `k` has kind `k`; the last column has decimals.
pub(crate) struct Writer<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) code: Vec<Instruction>,
    /// The kinds of values.
    pub(crate) kinds: &'a [Kind],
    /// Whether operations with possible faults occur.
    pub(crate) faults: bool,
}

impl Writer<'_> {
    pub(crate) fn emit(&mut self, op: Op, kind: Kind, registers: [u8; 4]) -> &mut Instruction {
        self.code.push(row_instruction(op, kind, registers, kind));
        self.code.last_mut().unwrap()
    }

    pub(crate) fn kind(&mut self) -> Kind {
        self.kinds[self.random.below(self.kinds.len() as u64) as usize]
    }

    /// A kind other than decimals, for casts and scales; `otherwise` if there is none.
    fn plain(&mut self, otherwise: Kind) -> Kind {
        match self.kind() {
            Kind::Decimal => otherwise,
            kind => kind,
        }
    }

    fn leaf(&mut self, kind: Kind, out: u8) {
        if self.random.below(5) > 0 {
            self.emit(Op::Load, kind, [out, 0, 0, 0]).column = kind as u16;
            return;
        }
        let null = u8::from(self.random.below(6) == 0);
        let word = self.random.below(2);
        let constant = match kind {
            Kind::F32 => (word as f32).to_bits().into(),
            Kind::F64 => (word as f64).to_bits().into(),
            Kind::Decimal => -i128::from(word),
            _ => word.into(),
        };
        self.emit(Op::Constant, kind, [out, 0, null, 0]).constant = constant;
    }

    pub(crate) fn value(&mut self, kind: Kind, depth: usize, out: u8) {
        if depth == 0 || self.random.below(8) == 0 {
            return self.leaf(kind, out);
        }
        let below = depth - 1;
        match (self.random.below(7), kind) {
            (0, _) => {
                self.value(Kind::Bool, below, out);
                self.value(kind, below, out + 1);
                self.value(kind, below, out + 2);
                self.emit(Op::Select, kind, [out, out, out + 1, out + 2]);
            }
            (_, Kind::Bool) => self.boolean(below, out),
            (_, Kind::Decimal) => self.decimal(below, out),
            (1, Kind::I32) => {
                self.value(Kind::I64, below, out);
                let kind = Kind::I64;
                self.emit(Op::Floor, kind, [out, out, 0, 0]).constant = 86_400;
                let part = self.random.below(3) as u8;
                self.emit(Op::Part, Kind::I32, [out, out, part, 0]);
            }
            (6, Kind::F64) => {
                self.value(Kind::Decimal, below, out);
                let made = self.emit(Op::ToFloat, kind, [out, out, 0, 0]);
                (made.constant, made.from) = (100f64.to_bits().into(), Kind::Decimal);
            }
            (6, plain) if self.faults && !plain.is_float() => {
                self.value(Kind::Decimal, below, out);
                let made = self.emit(Op::Truncate, kind, [out, out, 0, 0]);
                (made.constant, made.from) = (1000, Kind::Decimal);
            }
            (2, plain) => {
                let from = self.plain(plain);
                let fits = plain.is_float() || plain.holds_all_of(from);
                let from = if fits || self.faults { from } else { plain };
                self.value(from, below, out);
                if from != plain {
                    self.emit(Op::Cast, kind, [out, out, 0, 0]).from = from;
                }
            }
            (3, _) => {
                self.value(kind, below, out);
                self.emit(Op::Neg, kind, [out, out, 0, 0]);
            }
            (_, plain) => {
                let ops = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem];
                let some = if self.faults || plain.is_float() {
                    5
                } else {
                    3
                };
                let op = ops[self.random.below(some) as usize];
                self.value(kind, below, out);
                self.value(kind, below, out + 1);
                self.emit(op, kind, [out, out, out + 1, 0]);
            }
        }
    }

    fn decimal(&mut self, below: usize, out: u8) {
        let kind = Kind::Decimal;
        let digits = match self.faults {
            true => [0, 3, 38][self.random.below(3) as usize],
            false => 0,
        };
        match self.random.below(7) {
            6 if self.faults => {
                let from = Kind::F64;
                self.value(from, below, out);
                let made = self.emit(Op::FromFloat, kind, [out, out, digits, 0]);
                (made.constant, made.from) = (1000f64.to_bits().into(), from);
            }
            0 => {
                let from = match self.plain(Kind::I64) {
                    Kind::F32 | Kind::F64 | Kind::Bool => Kind::U64,
                    integer => integer,
                };
                self.value(from, below, out);
                let scale = self.emit(Op::Scale, kind, [out, out, digits, 0]);
                (scale.constant, scale.from) = (1000, from);
            }
            1 => {
                self.value(kind, below, out);
                self.emit(Op::Scale, kind, [out, out, digits, 0]).constant = 10;
            }
            2 => {
                self.value(kind, below, out);
                self.emit(Op::Round, kind, [out, out, digits, 0]).constant = 100;
            }
            _ => {
                let some = if self.faults { 5 } else { 3 };
                let op = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem];
                let op = op[self.random.below(some) as usize];
                self.value(kind, below, out);
                self.value(kind, below, out + 1);
                self.emit(op, kind, [out, out, out + 1, 0]);
            }
        }
    }

    fn boolean(&mut self, below: usize, out: u8) {
        let op = BOOLEAN_OPS[self.random.below(BOOLEAN_OPS.len() as u64) as usize];
        let kind = match takes_booleans(op) {
            true => Kind::Bool,
            false => self.kind(),
        };
        self.value(kind, below, out);
        let b = match is_unary(op) {
            true => 0,
            false => {
                self.value(kind, below, out + 1);
                out + 1
            }
        };
        self.emit(op, kind, [out, out, b, 0]);
    }
}

/// An instruction without a column and a constant; the registers are the result and three operands.
pub(crate) fn row_instruction(
    op: Op,
    kind: Kind,
    [out, a, b, c]: [u8; 4],
    from: Kind,
) -> Instruction {
    Instruction {
        op,
        kind,
        out,
        a,
        b,
        c,
        column: 0,
        constant: 0,
        from,
    }
}

/// Kinds by the width of the widest, as kernels made for a program take more rows together the narrower they are; all of them too.
pub(crate) fn kinds(random: &mut Random) -> Vec<Kind> {
    use crate::ir::program::Kind::*;
    match random.below(8) {
        0 => vec![I8, U8, Bool],
        1 => vec![I16, U16, I8, Bool],
        2 => vec![I32, U32, Bool, U8],
        3 => vec![F32, I32, Bool],
        4 => vec![I64, U64, Bool, I16],
        5 => vec![F64, F32, I64, Bool],
        6 => vec![I64, Bool, Decimal],
        _ => KINDS.into_iter().chain([Kind::Decimal; 3]).collect(),
    }
}
