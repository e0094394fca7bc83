//! [`Sets`]: lists encoded as ascending sets of numbers.

use crate::device::cuda::runtime::launch::Structure;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::buffer::Buffer;

/// The sets of one side by position, in the order of their groups and sizes.
#[derive(Debug)]
pub(crate) struct Sets {
    /// Row ids. Rows without a list, or in no group, have no position.
    pub(crate) rows: Buffer<u32>,
    /// Where rows are in groups.
    pub(crate) by_group: Option<ByGroup>,
    pub(crate) offsets: Memory,
    pub(crate) elements: Memory,
    /// Distinct elements, those that the indexed side lacks included.
    pub(crate) sizes: Memory,
    pub(crate) len: usize,
    /// Elements of all sets.
    pub(crate) entries: usize,
}

impl Sets {
    /// As kernels take them.
    pub(crate) fn structure(&self) -> Structure<4> {
        self.structure_from(0)
    }

    /// The same for a launch that begins with a set.
    pub(crate) fn structure_from(&self, first: usize) -> Structure<4> {
        Structure([
            (&self.offsets).into(),
            (&self.elements).into(),
            (&self.sizes).into(),
            (self.len as u32, first as u32).into(),
        ])
    }

    /// Elements of an average set.
    pub(crate) fn mean(&self) -> usize {
        self.entries / self.len.max(1)
    }
}

/// Groups of rows, and how many there are.
pub(crate) type Groups<'a> = (&'a Buffer<u32>, u32);

/// The group of each set, and where the sets of each of so many groups begin, and the end.
#[derive(Debug)]
pub(crate) struct ByGroup {
    pub(crate) groups: Memory,
    pub(crate) segments: Memory,
    pub(crate) count: usize,
}
