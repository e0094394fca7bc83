//! [`Wavelet`]: the levels of a wavelet tree in device memory, and the cost constants of counting by it.

use crate::device::cuda::runtime::memory::Memory;
use crate::device::wavelet::{Costs, Layout};

/// Picoseconds on an H200: a leaf test if all leaves are tested; the build for each build position, and the count for
/// each probe position, with 10^8 random keys of 64 bits a side. There the build takes 13.6 ms, the ranks of the probe
/// words 11.4 ms, and the search 10.0 to 14.5 ms (docs/performance/log-theta.md). `begin` is some eighty launches.
pub(crate) const COSTS: Costs = Costs {
    leaf_test: 22.0,
    begin: 3e8,
    build: 150.0,
    count: 250.0,
};

/// A wavelet tree over the ranks of the keys of one tested column, by build position.
#[derive(Debug)]
pub(crate) struct Wavelet {
    pub(crate) layout: Layout,
    /// The keys in ascending order; `None` if all are equal, and so sorted by position too.
    pub(crate) keys: Option<Memory>,
    /// The blocks of all levels, level after level.
    pub(crate) levels: Memory,
    /// The low bits of the ranks in the order below the last level, a byte each.
    pub(crate) low: Memory,
}
