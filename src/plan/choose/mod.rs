//! Which nodes run on a device: cardinalities, costs, placement.

pub(crate) mod aggregate_costs;
pub(crate) mod cardinality;
pub(crate) mod cost;
pub(crate) mod end_costs;
pub(crate) mod node_costs;
pub(crate) mod oversized;
pub(crate) mod placement;
pub(crate) mod policy;
pub(crate) mod short_text;
