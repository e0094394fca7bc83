//! A program over the rows of one input: the expressions of a projection, or the predicate of a filter, for the device.
//!
//! ```text
//! price * (1 - discount)     r0 = column[0]   r1 = 1   r2 = column[1]   r1 = r1 - r2   r0 = r0 * r1   output[0] = r0
//! ```
//!
//! Registers have 128 bits, for decimals. If a fault reaches an output, DataFusion evaluates the expressions, and raises their
//! errors.

use arrow::datatypes::DataType;

use crate::ir::program::{Instruction, Kind, Op, registers};
use crate::ir::text_predicate::TextTest;

/// Registers that a row program may use.
pub(crate) const MAX_ROW_REGISTERS: usize = 16;
/// Instructions that it may have.
pub(crate) const MAX_ROW_INSTRUCTIONS: usize = 256;

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
    pub instructions: Vec<Instruction>,
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

    /// Makes the loads of column `column` read codes of kind `code` whose value is `least` more than the code.
    pub(crate) fn load_codes(&mut self, column: usize, code: Kind, least: i128) {
        let loads = self.instructions.iter_mut();
        let loads = loads.filter(|i| i.op == Op::Load && usize::from(i.column) == column);
        for load in loads {
            load.from = code;
            load.constant = least;
        }
    }

    /// Registers that it uses, numbered from 0.
    pub(crate) fn registers(&self) -> usize {
        registers(&self.instructions)
    }
}
