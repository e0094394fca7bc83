//! A pair program: the conjuncts of a join filter that a device evaluates on each candidate.
//!
//! ```text
//! left.a * right.b > right.c        r0 = left[0]      r1 = right[0]     r0 = r0 * r1
//!                                   r1 = right[1]     r0 = r0 > r1      a candidate passes when r0 is true
//! ```
//!
//! Registers have 64 bits, to fit a GPU's shared memory; so pair programs have no decimals, and only the operations up to
//! [`Op::Cast`](crate::ir::program::Op::Cast). If the result for a candidate is a fault, DataFusion evaluates the filter for the whole tile.

use crate::ir::program::{Instruction, registers};
use crate::ir::side::Side;

/// The most registers of a program: as many as a GPU's thread blocks can hold.
pub(crate) const MAX_REGISTERS: usize = 11;
/// The most instructions of a program.
pub(crate) const MAX_INSTRUCTIONS: usize = 64;
/// The most columns of each side that a program reads.
pub(crate) const MAX_COLUMNS: usize = 8;

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
        registers(&self.instructions)
    }
}
