//! [`Wavelet`]: the levels of a wavelet tree in a GPU's memory.

use crate::device::cuda::runtime::memory::Memory;
use crate::device::wavelet::{Costs, Layout};

/// Picoseconds on an H200: of a leaf test where all leaves are tested, and of 10^8 random keys of 64 bits a side. To begin
/// is some eighty launches.
pub(crate) const COSTS: Costs = Costs {
    leaf_test: 22.0,
    begin: 3e8,
    build: 150.0,
    count: 250.0,
};

/// A wavelet tree over the ranks of keys.
#[derive(Debug)]
pub(crate) struct Wavelet {
    pub(crate) layout: Layout,
    /// The keys in ascending order; `None` when all are equal, and so in order by position too.
    pub(crate) keys: Option<Memory>,
    /// The blocks of all levels.
    pub(crate) levels: Memory,
    /// The low bits of the ranks in the order below the last level.
    pub(crate) low: Memory,
}
