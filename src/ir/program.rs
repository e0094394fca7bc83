//! The instructions of programs: what the compiled parts of expressions compute, over pairs of rows
//! ([`pair_program`](crate::ir::pair_program)) and over the rows of one input ([`row_program`](crate::ir::row_program)).
//!
//! A register holds a value and a state: a value, NULL, or a fault. A fault is where DataFusion raises an error (a division
//! by zero) or where devices may differ (the sign of a NaN): DataFusion decides.

/// The interpretation of a register. Integers are sign- or zero-extended to 64 bits, a 32-bit float is in the lower half, a
/// Boolean is 0 or 1. The numbers are those of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Up to 128 bits, without the scale.
    Decimal,
}

impl Kind {
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
            Self::F32 | Self::F64 | Self::Decimal => return None,
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
/// the result a fault, and otherwise a NULL makes it NULL. The numbers are those of the kernels, where the first two of
/// a pair program load from the build and the probe side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Op {
    /// A column of the left input, or of the only one. In a row program, of a column of codes if `from` is not `kind`: then `from` is unsigned
    /// and narrower, and the value is the code plus `constant`, which `kind` holds.
    Load,
    LoadRight,
    /// `constant`, or NULL if `b` is 1.
    Constant,
    /// Integers wrap. A NaN result is a fault if no operand is NaN, or if both are and differ: its sign depends on the
    /// hardware. Decimals have the same scale; a result beyond 128 bits is a fault.
    Add,
    Sub,
    Mul,
    /// Towards zero. Of integers and decimals, a zero divisor and the least integer by -1 are faults.
    Div,
    Rem,
    /// Integers wrap, floats change the sign bit; not of decimals.
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
    /// From kind `from`, which differs from `kind`; neither is a decimal. A number that an integer kind does not have is a
    /// fault.
    Cast,
    /// An integer or a decimal as a decimal: `a * constant`. Beyond 128 bits, or with more than `b` digits if `b` is not 0, it
    /// is a fault.
    Scale = 32,
    /// A decimal of fewer digits: `a / constant`, half away from zero. With more than `b` digits, if `b` is not 0, it is a fault.
    Round,
    /// `a / constant` of an I64, rounded down.
    Floor,
    /// The year (`b` is 0), the month (1) or the day of the month (2) of a number of days since 1970, as an I32. Days beyond
    /// [`FAR_DAYS`] are faults.
    Part,
    /// Output `column` is `a`.
    Store,
    /// A decimal as an integer: `a / constant`, towards zero. Beyond 64 bits (signed), or beyond the kind, it is a fault.
    Truncate,
    /// A decimal as an F64: `a` over `constant`, which is an F64. An `a` beyond 64 bits is a fault.
    ToFloat,
    /// An F64 as a decimal: `a` times `constant`, which is one too, half away from zero. Beyond 64 bits, or with more than `b`
    /// digits, it is a fault.
    FromFloat,
}

// The kernels have these numbers.
const _: () =
    assert!(Kind::Decimal as u8 == 11 && Op::Cast as u8 == 23 && Op::FromFloat as u8 == 39);

/// The most days before or after 1970 of which programs compute parts.
pub(crate) const FAR_DAYS: i64 = 90_000_000;

/// An instruction of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Instruction {
    pub op: Op,
    /// That of the result; of a comparison, that of the operands.
    pub kind: Kind,
    pub out: u8,
    pub a: u8,
    pub b: u8,
    pub c: u8,
    /// For a load, the column among those of its side; for a store, the output.
    pub column: u16,
    pub constant: i128,
    /// For a conversion, the kind of the operand; for a load, that of the column.
    pub from: Kind,
}

impl Instruction {
    /// An operation on registers `a` and `b` of kind `kind`, whose result goes to `out`.
    pub(crate) fn of(op: Op, kind: Kind, [out, a, b]: [u8; 3]) -> Self {
        Self {
            op,
            kind,
            out,
            a,
            b,
            c: 0,
            column: 0,
            constant: 0,
            from: kind,
        }
    }

    /// Whether it loads a column of codes.
    pub(crate) fn loads_codes(&self) -> bool {
        self.op == Op::Load && self.from != self.kind
    }
}

/// The number of registers of a program.
pub(crate) fn registers(instructions: &[Instruction]) -> usize {
    let out = instructions.iter().map(|i| usize::from(i.out) + 1);
    out.max().unwrap_or(0)
}
