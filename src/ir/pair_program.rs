//! A pair program: the conjuncts of a join filter that a device evaluates on each candidate.
//!
//! ```text
//! left.a * right.b > right.c        r0 = left[0]      r1 = right[0]     r0 = r0 * r1
//!                                   r1 = right[1]     r0 = r0 > r1      a candidate passes when r0 is true
//! ```
//!
//! A register holds a 64-bit word and a state: a value, NULL, or a fault. A fault is where DataFusion raises an error
//! (a division by zero) or where devices may differ (the sign of a NaN). If the result for a candidate is a fault,
//! DataFusion evaluates the filter for the whole tile.

use arrow::datatypes::DataType;

use crate::ir::side::Side;

/// The most registers of a program: as many as a GPU's thread blocks can hold.
pub(crate) const MAX_REGISTERS: usize = 11;
/// The most instructions of a program.
pub(crate) const MAX_INSTRUCTIONS: usize = 64;
/// The most columns of each side that a program reads.
pub(crate) const MAX_COLUMNS: usize = 8;

/// The interpretation of a word. Integers are sign- or zero-extended to 64 bits, a 32-bit float is in the lower half, a
/// Boolean is 0 or 1. The numbers are those of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    Bool,
}

impl Kind {
    /// The kind of a type's values. Dates, times and timestamps are integers.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 => Self::I8,
            DataType::Int16 => Self::I16,
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Self::I32,
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_) => Self::I64,
            DataType::UInt8 => Self::U8,
            DataType::UInt16 => Self::U16,
            DataType::UInt32 => Self::U32,
            DataType::UInt64 => Self::U64,
            DataType::Float32 => Self::F32,
            DataType::Float64 => Self::F64,
            DataType::Boolean => Self::Bool,
            _ => return None,
        })
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// The least and the greatest value of an integer or Boolean kind.
    pub(crate) fn range(self) -> Option<(i128, i128)> {
        Some(match self {
            Self::I8 => (i8::MIN.into(), i8::MAX.into()),
            Self::I16 => (i16::MIN.into(), i16::MAX.into()),
            Self::I32 => (i32::MIN.into(), i32::MAX.into()),
            Self::I64 => (i64::MIN.into(), i64::MAX.into()),
            Self::U8 => (0, u8::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::U64 => (0, u64::MAX.into()),
            Self::Bool => (0, 1),
            Self::F32 | Self::F64 => return None,
        })
    }

    /// Whether this integer kind has every value of an integer or Boolean kind.
    pub(crate) fn holds_all_of(self, from: Self) -> bool {
        match (self.range(), from.range()) {
            (Some((least, most)), Some((low, high))) => least <= low && high <= most,
            _ => false,
        }
    }
}

/// The operation of an instruction on registers `a`, `b` and `c`. Unless stated otherwise, a fault in an operand makes
/// the result a fault, and otherwise a NULL makes it NULL. The numbers are those of the kernels, in which the first two
/// load from the build side and the probe side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    LoadLeft,
    LoadRight,
    /// `constant`, or NULL if `b` is 1.
    Constant,
    /// Integers wrap. A NaN result is a fault if no operand is NaN, or if both are and differ: its sign depends on the
    /// hardware.
    Add,
    Sub,
    Mul,
    /// A zero divisor, and the least integer by -1, are faults.
    Div,
    Rem,
    /// Integers wrap, floats change the sign bit.
    Neg,
    /// `kind` is that of the operands. Floats are compared in total order, with -0.0 equal to 0.0.
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    /// Never NULL.
    Distinct,
    NotDistinct,
    /// Kleene logic. If the left operand alone decides, the right one is not evaluated.
    And,
    Or,
    Not,
    /// Never NULL.
    IsNull,
    IsNotNull,
    /// `b` where `a` is true, otherwise `c`; values and states.
    Select,
    /// From kind `from`, which differs from `kind`. A number that an integer kind does not have is a fault.
    Cast,
}

/// An instruction of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub op: Op,
    pub kind: Kind,
    pub out: u8,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    /// For a load, the column among those of its side.
    pub column: u16,
    pub constant: u64,
    /// For a cast, the kind of the operand.
    pub from: Kind,
}

/// A program whose last instruction decides whether a candidate passes: if it is TRUE, not NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub instructions: Vec<Instruction>,
    /// The columns of the left and of the right input that loads read.
    pub left: Vec<usize>,
    pub right: Vec<usize>,
    /// The conjuncts of the filter that the program evaluates, by index.
    pub covers: Vec<usize>,
    /// Whether DataFusion's evaluation can fail. Then no candidate may be skipped.
    pub can_fail: bool,
}

impl Program {
    pub(crate) fn columns(&self, side: Side) -> &[usize] {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// The number of registers that it uses.
    pub(crate) fn registers(&self) -> usize {
        let out = self.instructions.iter().map(|i| usize::from(i.out) + 1);
        out.max().unwrap_or(0)
    }
}
