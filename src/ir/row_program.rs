//! A row program: the expressions of a projection, or the predicate of a filter, over the rows of one input.
//!
//! ```text
//! price * (1 - discount)     r0 = column[0]   r1 = 1   r2 = column[1]   r1 = r1 - r2   r0 = r0 * r1   output[0] = r0
//! ```
//!
//! A register holds 128 bits and a state: a value, NULL, or a fault, as in a pair
//! [`Program`](crate::ir::pair_program::Program), whose operations on numbers and Booleans are the same. Decimals are
//! added here. If a row with a fault reaches an output, DataFusion evaluates the expressions, and raises their errors.

use arrow::datatypes::DataType;

use crate::ir::pair_program::{Kind, Op};
use crate::ir::text_predicate::TextTest;

/// The most registers of a row program.
pub(crate) const MAX_ROW_REGISTERS: usize = 16;
/// The most instructions of a row program.
pub(crate) const MAX_ROW_INSTRUCTIONS: usize = 256;

/// The contents of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// A number, a time or a Boolean, in the lower 64 bits.
    Plain(Kind),
    /// A decimal of up to 128 bits, without its scale.
    Decimal,
}

impl RowKind {
    /// The kind of a type's values; a type of NULLs alone has none.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Decimal128(..) => Some(Self::Decimal),
            other => Kind::of(other).map(Self::Plain),
        }
    }

    /// The number of this kind in the kernels.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Plain(kind) => kind as u8,
            Self::Decimal => 11,
        }
    }
}

/// The operation of an instruction on registers `a`, `b` and `c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOp {
    /// The value of column `column`.
    Load,
    /// `constant`, or NULL if `b` is 1.
    Constant,
    /// As in a pair program. Decimals, with equal scales, have ADD, SUB, MUL, DIV (towards zero), REM, comparisons and
    /// SELECT; a result beyond 128 bits and a division by zero are faults.
    Plain(Op),
    /// From an integer or a decimal to a decimal: `a * constant`. A fault beyond 128 bits, or with more than `b` digits
    /// unless `b` is 0.
    Scale,
    /// To a decimal of fewer digits: `a / constant`, rounded half away from zero. A fault with more than `b` digits.
    Round,
    /// From a decimal to an integer: `a / constant`, towards zero. A fault beyond 64 bits, or beyond the integer kind.
    Truncate,
    /// From a decimal to an F64: `a` divided by `constant`, an F64. A fault if `a` exceeds 64 bits.
    ToFloat,
    /// From an F64 to a decimal: `a` times `constant`, an F64, rounded half away from zero. A fault beyond 64 bits, or
    /// with more than `b` digits.
    FromFloat,
    /// `a / constant` of an I64, rounded down.
    Floor,
    /// From days since 1970 to the year (`b` is 0), the month (1) or the day of the month (2), as an I32. Distant days
    /// are faults.
    Part,
    /// Output `column` is `a`.
    Store,
}

impl RowOp {
    /// The number of this operation in the kernels.
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

/// Days farther from 1970 are faults.
pub(crate) const FAR_DAYS: i64 = 90_000_000;

/// An instruction of a row program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowInstruction {
    pub op: RowOp,
    /// The kind of the result; for a comparison, that of the operands.
    pub kind: RowKind,
    pub out: u8,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    pub column: u16,
    pub constant: i128,
    /// For a cast and for SCALE, the kind of the operand.
    pub from: RowKind,
}

/// The source of a load. Registers hold no text, so predicates on text are evaluated to a column before the program
/// runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowSource {
    /// A column of the input.
    Column(usize),
    /// The Boolean column that a test of a text column returns.
    Test(TextTest),
}

/// Compiled expressions over the rows of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowProgram {
    pub instructions: Vec<RowInstruction>,
    /// The sources of loads.
    pub columns: Vec<RowSource>,
    /// The types of its outputs. `spec/rows.rs` (`MadeBy`) maps expressions to outputs.
    pub outputs: Vec<DataType>,
}

impl RowProgram {
    /// The number of registers that it uses.
    pub(crate) fn registers(&self) -> usize {
        let used = self.instructions.iter().map(|i| usize::from(i.out) + 1);
        used.max().unwrap_or(0)
    }
}
