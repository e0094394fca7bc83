//! Accumulators of groups: their layout in shared memory and on the device, and the kernels that add rows to them.

pub(crate) mod accumulator;
pub(crate) mod added;
pub(crate) mod cluster;
pub(crate) mod launches;
pub(crate) mod shared_layout;
