//! A program over the rows of one input: the expressions of a projection, or the predicate of a filter, for the device.
//!
//! ```text
//! price * (1 - discount)     r0 = column[0]   r1 = 1   r2 = column[1]   r1 = r1 - r2   r0 = r0 * r1   output[0] = r0
//! ```
//!
//! A register holds 128 bits and a state: a value, NULL, or "the host must decide", as in a [`Program`](crate::ir::pair_program::Program) over pairs,
//! whose operations on numbers and Booleans are the same here. Decimals are added besides. Where a row that the host must decide
//! reaches an output, the expressions are DataFusion's to evaluate, and so are their errors.

use arrow::datatypes::DataType;

use crate::ir::pair_program::{Kind, Op};
use crate::ir::text_predicate::TextTest;

/// Registers that a row program may use.
pub(crate) const MAX_ROW_REGISTERS: usize = 16;
/// Instructions that it may have.
pub(crate) const MAX_ROW_INSTRUCTIONS: usize = 256;

/// What a register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// A number, a time or a Boolean, in the lower 64 bits.
    Plain(Kind),
    /// A decimal of up to 128 bits, without its scale.
    Decimal,
}

impl RowKind {
    /// The kind of a type's values; NULLs alone have none.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Decimal128(..) => Some(Self::Decimal),
            other => Kind::of(other).map(Self::Plain),
        }
    }

    /// The number that kernels know it by.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Plain(kind) => kind as u8,
            Self::Decimal => 11,
        }
    }
}

/// What an instruction does to registers `a`, `b` and `c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOp {
    /// The value of column `column`.
    Load,
    /// `constant`, or NULL where `b` is 1.
    Constant,
    /// As of a program over pairs. Of decimals, which have the same scale, ADD and SUB, MUL, DIV (towards zero) and REM, comparisons
    /// and SELECT; what passes 128 bits, or divides by zero, is for the host.
    Plain(Op),
    /// An integer or a decimal as a decimal: `a * constant`; for the host where that passes 128 bits or has more than `b` digits,
    /// if `b` is not 0.
    Scale,
    /// A decimal of fewer digits: `a / constant`, half away from zero; for the host where it has more than `b` digits then.
    Round,
    /// A decimal as an integer: `a / constant`, towards zero; for the host where that passes 64 bits, or those of the integer.
    Truncate,
    /// A decimal as an F64: `a` over `constant`, which is an F64; for the host where `a` passes 64 bits.
    ToFloat,
    /// An F64 as a decimal: `a` times `constant`, which is one too, half away from zero; for the host where that passes 64 bits, or
    /// has more than `b` digits.
    FromFloat,
    /// `a / constant` of an I64, rounded down.
    Floor,
    /// Of a number of days since 1970 the year (`b` is 0), the month (1) or the day of the month (2), as an I32; far days are for
    /// the host.
    Part,
    /// Output `column` is `a`.
    Store,
}

impl RowOp {
    /// The number that kernels know it by.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Load => Op::LoadLeft as u8,
            Self::Constant => Op::Constant as u8,
            Self::Plain(op) => op as u8,
            Self::Scale => 32,
            Self::Round => 33,
            Self::Floor => 34,
            Self::Part => 35,
            Self::Store => 36,
            Self::Truncate => 37,
            Self::ToFloat => 38,
            Self::FromFloat => 39,
        }
    }
}

/// Days beyond this, before or after 1970, are for the host.
pub(crate) const FAR_DAYS: i64 = 90_000_000;

/// One step of a row program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowInstruction {
    pub op: RowOp,
    /// Of the result; of a comparison, the operands'.
    pub kind: RowKind,
    pub out: u8,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    pub column: u16,
    pub constant: i128,
    /// Of a cast, and of SCALE: the kind it is from.
    pub from: RowKind,
}

/// What a load reads: no register holds text, so what is asked of it is a column before the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowSource {
    /// A column of the input.
    Column(usize),
    /// The Boolean column that a test of a column of text gives.
    Test(TextTest),
}

/// Expressions over the rows of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowProgram {
    pub instructions: Vec<RowInstruction>,
    /// What loads read.
    pub columns: Vec<RowSource>,
    /// The types of its outputs; `spec/rows.rs` says which expression each is of.
    pub outputs: Vec<DataType>,
}

impl RowProgram {
    /// The same program over an input that has column `i` at `place(i)`.
    pub(crate) fn over(&self, place: &dyn Fn(usize) -> usize) -> Self {
        let columns = self.columns.iter().map(|source| match source {
            RowSource::Column(i) => RowSource::Column(place(*i)),
            RowSource::Test(test) => RowSource::Test(test.over(place)),
        });
        Self {
            columns: columns.collect(),
            ..self.clone()
        }
    }

    /// Registers that it uses, numbered from 0.
    pub(crate) fn registers(&self) -> usize {
        let used = self.instructions.iter().map(|i| usize::from(i.out) + 1);
        used.max().unwrap_or(0)
    }
}
