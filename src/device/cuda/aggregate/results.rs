//! [`Results`]: what a strategy of grouped aggregation makes, and how the keys of its groups are found.

use crate::device::cuda::aggregate::accumulate::added::AddedInGlobal;
use crate::device::cuda::aggregate::direct_keys::DirectKeys;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::keys::key_width::KeyWidth;
use crate::device::cuda::runtime::memory::Memory;
use crate::ir::strategies::GroupStrategy;

/// Results by group.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    /// One for each accumulator.
    pub(crate) outs: Vec<Memory>,
    pub(crate) members: Members<'a>,
    pub(crate) groups: usize,
    /// Groups that each has room for: words of wide sums lie so far apart.
    pub(crate) capacity: usize,
    pub(crate) strategy: Option<GroupStrategy>,
}

/// Who is in each group.
#[derive(Debug)]
pub(crate) enum Members<'a> {
    /// The first row of each.
    Rows(Memory),
    /// Rows with the keys of all ids, or of these numbers.
    Ids(DirectKeys<'a>, Option<(Memory, KeyWidth)>),
    /// Rows with these values of a key that is a number.
    Values(Number<'a>, Memory),
}

/// What was folded by group.
#[derive(Debug)]
pub(crate) struct Folded {
    /// One for each accumulator.
    pub(crate) outs: Vec<Memory>,
    pub(crate) groups: usize,
    pub(crate) capacity: usize,
    /// The words of ids in parts, if they were put in such; and the bit from which on ids say theirs, if rows of one are in no order.
    pub(crate) parts: Option<(Memory, Option<u32>)>,
    /// What was found on the way, in global memory.
    pub(crate) added: Option<AddedInGlobal>,
    /// By group its key's word, where a directory knows it and no accumulator finds first rows: `by_keys` drops them otherwise.
    pub(crate) words: Option<Memory>,
    pub(crate) strategy: Option<GroupStrategy>,
}

impl Folded {
    pub(crate) fn of(outs: Vec<Memory>, groups: usize) -> Self {
        Self {
            outs,
            groups,
            capacity: groups,
            parts: None,
            added: None,
            words: None,
            strategy: None,
        }
    }

    /// Of accumulators the first of which finds the first row of each group.
    pub(crate) fn with_rows<'a>(mut self) -> Results<'a> {
        let firsts = self.outs.remove(0);
        self.with(Members::Rows(firsts))
    }

    /// Of keys whose words, if they are known, say who is in each group.
    pub(crate) fn with_words<'a>(
        mut self,
        members: impl FnOnce(Memory) -> Members<'a>,
    ) -> Results<'a> {
        match self.words.take() {
            Some(words) => self.with(members(words)),
            None => self.with_rows(),
        }
    }

    pub(crate) fn with(self, members: Members<'_>) -> Results<'_> {
        Results {
            outs: self.outs,
            members,
            groups: self.groups,
            capacity: self.capacity,
            strategy: self.strategy,
        }
    }

    pub(crate) fn by(self, strategy: GroupStrategy) -> Self {
        Self {
            strategy: Some(strategy),
            ..self
        }
    }
}
