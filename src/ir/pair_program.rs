//! A register program: the conjuncts of a residual that a device evaluates by itself, on each candidate.
//!
//! ```text
//! left.a * right.b > right.c        r0 = left[0]      r1 = right[0]     r0 = r0 * r1
//!                                   r1 = right[1]     r0 = r0 > r1      a pair passes when r0 is true
//! ```
//!
//! A register holds a 64-bit word and a state: a value, NULL, or "the host must decide", which is where DataFusion raises
//! an error (a division by zero) or where devices might differ (the sign of a NaN). One such pair, and the tile is left to
//! DataFusion's own expressions.

use arrow::datatypes::DataType;

use crate::ir::side::Side;

/// Registers that a program may use: as many as a GPU's blocks have room for.
pub(crate) const MAX_REGISTERS: usize = 11;
/// Instructions that a program may have.
pub(crate) const MAX_INSTRUCTIONS: usize = 64;
/// Columns that it may read of each side.
pub(crate) const MAX_COLUMNS: usize = 8;

/// What a word stands for. Integers are extended to 64 bits by their sign or with zeros, a 32-bit float lies in the lower
/// half, a Boolean is 0 or 1. The numbers are those of the kernels.
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
    /// The kind of a type's values; dates, times and timestamps are integers here.
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

    /// Least and greatest value of an integer or Boolean kind.
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

    /// Whether every value of an integer or Boolean kind is a value of this integer kind.
    pub(crate) fn holds_all_of(self, from: Self) -> bool {
        match (self.range(), from.range()) {
            (Some((least, most)), Some((low, high))) => least <= low && high <= most,
            _ => false,
        }
    }
}

/// What an instruction does to registers `a`, `b` and `c`. Where nothing else is said, an operand that the host must decide
/// makes a result that it must decide, and otherwise a NULL makes a NULL. The numbers are those of the kernels, where the
/// first two read the sorted and the searching side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Op {
    LoadLeft,
    LoadRight,
    /// `constant`, or NULL where `b` is 1.
    Constant,
    /// Integers wrap. A float that is NaN without an operand that is, or with two that differ, is for the host: its sign is
    /// the hardware's.
    Add,
    Sub,
    Mul,
    /// A zero divisor, and the least integer by -1, are for the host.
    Div,
    Rem,
    /// Integers wrap, floats change the sign bit.
    Neg,
    /// `kind` is the operands'; floats by total order with -0.0 equal to 0.0.
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    /// Never NULL.
    Distinct,
    NotDistinct,
    /// Kleene logic. Where the left operand alone decides, the right one is not asked.
    And,
    Or,
    Not,
    /// Never NULL.
    IsNull,
    IsNotNull,
    /// `b` where `a` is true, otherwise `c`, with its state.
    Select,
    /// From the kind `from`, which is another one; a number that the integer kind does not have is for the host.
    Cast,
}

/// One step of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub op: Op,
    pub kind: Kind,
    pub out: u8,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    /// Of a load: which of the side's columns.
    pub column: u16,
    pub constant: u64,
    /// Of a cast: the kind it is from.
    pub from: Kind,
}

/// A program whose last instruction says whether a pair passes: when it is true. NULL is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub instructions: Vec<Instruction>,
    /// Columns of the left and of the right side's input that loads read.
    pub left: Vec<usize>,
    pub right: Vec<usize>,
    /// The conjuncts of the residual that it decides, by index.
    pub covers: Vec<usize>,
    /// Whether DataFusion's own evaluation can fail on a pair. Then no candidate may be passed over.
    pub can_fail: bool,
}

impl Program {
    pub(crate) fn columns(&self, side: Side) -> &[usize] {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// Registers that it uses, numbered from 0.
    pub(crate) fn registers(&self) -> usize {
        let out = self.instructions.iter().map(|i| usize::from(i.out) + 1);
        out.max().unwrap_or(0)
    }
}
