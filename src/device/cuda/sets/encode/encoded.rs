//! [`Sets`]: lists encoded as ascending sets of element ranks, in device memory.

use crate::device::cuda::runtime::arguments::Structure;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::buffer::Buffer;

/// The sets of one side by position, ordered by group and size.
#[derive(Debug)]
pub(crate) struct Sets {
    /// Row ids, position after position. Rows without a list, or in no group, have no position.
    pub(crate) rows: Buffer<u32>,
    /// The rows of each position, if equal sets share one; otherwise each has one row.
    pub(crate) members: Option<Members>,
    /// Groups, if the join has other equalities.
    pub(crate) by_group: Option<ByGroup>,
    /// First element of each set, and the end.
    pub(crate) offsets: Memory,
    /// Ranks, ascending in each set; 0 is the rarest.
    pub(crate) elements: Memory,
    /// Distinct elements of each set, with those that the indexed side lacks, which have no rank.
    pub(crate) sizes: Memory,
    /// Number of sets.
    pub(crate) len: usize,
    /// Length of `elements`.
    pub(crate) entries: usize,
}

impl Sets {
    /// The `Sets` of the kernels.
    pub(crate) fn structure(&self) -> Structure<4> {
        self.structure_from(0)
    }

    /// The same for a launch that begins at set `first`.
    pub(crate) fn structure_from(&self, first: usize) -> Structure<4> {
        Structure([
            (&self.offsets).into(),
            (&self.elements).into(),
            (&self.sizes).into(),
            (self.len as u32, first as u32).into(),
        ])
    }

    /// The group of each position; `None` without groups.
    pub(crate) fn groups(&self) -> Option<&Memory> {
        self.by_group.as_ref().map(|by_group| &by_group.groups)
    }

    /// The rows that share the set of another row.
    pub(crate) fn repeats(&self) -> u64 {
        (self.rows.len() - self.len) as u64
    }

    /// The number of rows of each position; `None` if each has one.
    pub(crate) fn weights(&self) -> Option<&Memory> {
        self.members.as_ref().map(|members| &members.counts)
    }

    /// Elements with a rank of an average set.
    pub(crate) fn mean(&self) -> usize {
        self.entries / self.len.max(1)
    }
}

/// The rows of positions that equal sets share.
#[derive(Debug)]
pub(crate) struct Members {
    /// Where the rows of each position begin, and the end.
    pub(crate) starts: Memory,
    /// The number of rows of each position.
    pub(crate) counts: Memory,
    /// The position of each row, in the order of the rows.
    pub(crate) positions: Memory,
}

/// The group of each row, and the number of groups.
pub(crate) type GroupIds<'a> = (&'a Buffer<u32>, u32);

/// The group of each set, the first set of each of `count` groups, and the end.
#[derive(Debug)]
pub(crate) struct ByGroup {
    pub(crate) groups: Memory,
    pub(crate) segments: Memory,
    pub(crate) count: usize,
}
