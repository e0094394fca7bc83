//! [`GroupResults`]: what every strategy of grouped aggregation returns, and how the keys of the groups are found.

use crate::device::cuda::aggregate::accumulate::added::AddedInGlobal;
use crate::device::cuda::aggregate::direct_keys::DirectKeys;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::memory::Memory;
use crate::ir::strategies::{GroupStrategy, Grouping, Materialization};

/// The accumulators' results by group.
#[derive(Debug)]
pub(crate) struct GroupResults<'a> {
    /// One for each accumulator.
    pub(crate) outs: Vec<Memory>,
    pub(crate) members: Members<'a>,
    /// The number of groups.
    pub(crate) groups: usize,
    /// The number of groups that each result is allocated for. The words of a wide sum are this number of words apart.
    pub(crate) capacity: usize,
    /// What ran; without a strategy where there was nothing to choose.
    pub(crate) by: Grouping,
}

/// How the keys of each group are found.
#[derive(Debug)]
pub(crate) enum Members<'a> {
    /// From the first row of each group.
    Rows(Memory),
    /// Decoded from the group's number: the ids 0, 1, …, or these numbers.
    Ids(DirectKeys<'a>, Option<(Memory, Width)>),
    /// The keys are these values of one integer column.
    Values(Number<'a>, Memory),
}

/// What aggregation returns, before the keys of the groups are found.
#[derive(Debug)]
pub(crate) struct Folded {
    /// One for each accumulator.
    pub(crate) outs: Vec<Memory>,
    pub(crate) groups: usize,
    /// The number of groups that each result is allocated for.
    pub(crate) capacity: usize,
    /// The ids' words in partition order, if rows were partitioned; and the first bit of the partition number, if rows
    /// of a partition are in any order.
    pub(crate) parts: Option<(Memory, Option<u32>)>,
    /// What the kernels reported while they added rows in global memory.
    pub(crate) added: Option<AddedInGlobal>,
    /// The word of each group's key, where a directory numbered the keys and no accumulator finds first rows; `by_keys`
    /// drops it otherwise.
    pub(crate) words: Option<Memory>,
    pub(crate) by: Grouping,
}

impl Folded {
    /// Results allocated for exactly these groups.
    pub(crate) fn of(outs: Vec<Memory>, groups: usize) -> Self {
        Self {
            outs,
            groups,
            capacity: groups,
            parts: None,
            added: None,
            words: None,
            by: Grouping::AUTO,
        }
    }

    /// For accumulators the first of which finds the first row of each group.
    pub(crate) fn with_rows<'a>(mut self) -> GroupResults<'a> {
        let firsts = self.outs.remove(0);
        self.with(Members::Rows(firsts))
    }

    /// For keys with words: the words give the keys; without words the first rows do.
    pub(crate) fn with_words<'a>(
        mut self,
        members: impl FnOnce(Memory) -> Members<'a>,
    ) -> GroupResults<'a> {
        match self.words.take() {
            Some(words) => self.with(members(words)),
            None => self.with_rows(),
        }
    }

    /// The results, with how the groups' keys are found.
    pub(crate) fn with(self, members: Members<'_>) -> GroupResults<'_> {
        GroupResults {
            outs: self.outs,
            members,
            groups: self.groups,
            capacity: self.capacity,
            by: self.by,
        }
    }

    /// Sets the strategy that ran.
    pub(crate) fn by(self, strategy: GroupStrategy) -> Self {
        let by = Grouping {
            strategy: Some(strategy),
            ..self.by
        };
        Self { by, ..self }
    }

    /// Sets how columns were put in the order that the strategy needs.
    pub(crate) fn materialized(self, materialization: Option<Materialization>) -> Self {
        let by = Grouping {
            materialization,
            ..self.by
        };
        Self { by, ..self }
    }
}
