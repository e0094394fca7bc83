//! Accumulators of groups: what they hold, where, and the kernels that add rows to them.

pub(crate) mod accumulator;
pub(crate) mod added;
pub(crate) mod cluster;
pub(crate) mod launches;
pub(crate) mod shared_layout;
