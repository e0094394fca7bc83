//! Which nodes run on a device, by which strategy: statistics, costs, placement.

pub(crate) mod aggregate_costs;
pub(crate) mod cardinality;
pub(crate) mod cost;
pub(crate) mod distinct;
pub(crate) mod end_costs;
pub(crate) mod fusion;
pub(crate) mod gain;
pub(crate) mod node_costs;
pub(crate) mod origin;
pub(crate) mod oversized;
pub(crate) mod placement;
pub(crate) mod policy;
pub(crate) mod short_text;
pub(crate) mod statistics;
pub(crate) mod strategy;
pub(crate) mod unique_keys;
