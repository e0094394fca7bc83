//! Grouped aggregation on the host.

pub(crate) mod fold;
pub(crate) mod primitives;
pub(crate) mod strategies;
