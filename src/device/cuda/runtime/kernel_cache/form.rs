//! [`Form`]: what a generated kernel is for, besides the program of its rows. Its text depends on that, so a cached kernel is found by it.

use crate::ir::group_program::{Accumulator, GroupProgram, KeyCodes, Word, layout};

/// What a kernel does with the registers of its program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Stores its outputs.
    Map,
    /// Moves the rows that pass.
    Select(Selection),
    /// Adds rows to the words of groups.
    Groups(GroupShape),
}

/// The test of a filter, and the columns that it moves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Selection {
    pub moved: Vec<Moved>,
    pub test: Test,
}

/// What decides whether a row passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Test {
    /// The only output of the program.
    Program,
    /// The bit of the row's key, which is in the columns that the program loads.
    Bits(KeyTest),
    /// Whether the value of the only loaded column differs from the previous row's. If a value is less than the
    /// previous one, the kernel has no result.
    Run,
}

/// A column without NULLs that is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Moved {
    /// Bytes of a value: 1, 2, 4, 8 or 16.
    pub bytes: u32,
    /// Its number among the program's columns, if it is one.
    pub loaded: Option<usize>,
}

/// The test of the bit of a key: what its text depends on. The bitmap and the digits of key columns are parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyTest {
    /// Whether rows pass whose bit is set, or those whose bit is not.
    pub set: bool,
    /// Whether a NULL is one more digit of its column; otherwise the row has no bit.
    pub null_equal: bool,
}

/// An aggregation of few groups: what the text of its kernel depends on besides the program of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupShape {
    pub predicates: Vec<u8>,
    pub keys: Vec<KeyCodes>,
    pub accumulators: Vec<Accumulator>,
    pub groups: u32,
}

impl GroupShape {
    /// `None` for too many groups.
    pub(crate) fn of(program: &GroupProgram) -> Option<Self> {
        Some(Self {
            predicates: program.predicates.clone(),
            keys: program.keys.clone(),
            accumulators: program.accumulators.clone(),
            groups: program.groups()?,
        })
    }

    /// How each word of a group is merged.
    pub(crate) fn layout(&self) -> Vec<Word> {
        layout(&self.accumulators)
    }
}
