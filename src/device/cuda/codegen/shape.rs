//! [`Shape`]: what a generated kernel takes, and of which kinds.

use crate::ir::row_program::{RowKind, RowProgram};

/// What a kernel's text depends on, but for constants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub program: &'a RowProgram,
    /// Of each column its kind, and whether it has NULLs.
    pub columns: &'a [(RowKind, bool)],
}

/// What a kernel is given, in 64 bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    Rows,
    Column(usize),
    ColumnValidity(usize),
    Output(usize),
    OutputValidity(usize),
    /// Lower 64 bits of the constant of an instruction, and the upper ones.
    Constant(usize),
    ConstantUpper(usize),
    /// A word that is set where a row is for the host.
    Left,
    /// Of `filter/one_pass.rs`: what it counts, and each column that it moves.
    Counts,
    Moved(usize),
    Kept(usize),
    /// Of `device/cuda/codegen/filter/bit_test.rs`: the bits, and of each key column the least value, how many there are from it to the greatest, the digit of a
    /// NULL and what digits are multiplied by.
    Bits,
    Least(usize),
    Digits(usize),
    NullDigit(usize),
    Stride(usize),
}
