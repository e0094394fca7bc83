//! [`GroupShape`]: what the text of a kernel depends on besides the program of its rows.

use crate::ir::group_program::{Accumulator, GroupProgram, KeyCodes, Word, layout};

/// What the text of a kernel depends on besides the program of its rows.
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
