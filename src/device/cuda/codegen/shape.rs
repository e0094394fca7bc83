//! [`Shape`] and [`Parameter`]: what a kernel's text depends on, and the parameters that it is launched with.

use crate::ir::program::Kind;
use crate::ir::row_program::RowProgram;

/// What the text of a kernel depends on. Constants are parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub program: &'a RowProgram,
    /// For each column its kind, and whether it has NULLs.
    pub columns: &'a [(Kind, bool)],
}

/// The parameters of a kernel, 64 bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameter {
    Rows,
    Column(usize),
    ColumnValidity(usize),
    Output(usize),
    OutputValidity(usize),
    /// The lower and the upper 64 bits of an instruction's constant.
    Constant(usize),
    ConstantUpper(usize),
    /// A word that is set if a row is a fault.
    Faults,
    /// Of `filter/one_pass.rs`: its counts, and each column that it moves, as input and output.
    Counts,
    Moved(usize),
    Kept(usize),
    /// Of `filter/bit_test.rs`: the bitmap, and for each key column the least value, the number of values from the
    /// least to the greatest, the digit of NULL, and the stride.
    Bits,
    Least(usize),
    Digits(usize),
    NullDigit(usize),
    Stride(usize),
}
