//! Which nodes a device runs, by which strategy: statistics, costs, placement.

pub(crate) mod address;
pub(crate) mod aggregate_candidates;
pub(crate) mod candidates;
pub(crate) mod cardinality;
pub(crate) mod cost;
pub(crate) mod fusion;
pub(crate) mod oversized;
pub(crate) mod placement;
pub(crate) mod policy;
pub(crate) mod statistics;
pub(crate) mod strategy;
