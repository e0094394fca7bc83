//! Aggregation fused with the join below it.

pub(crate) mod group_sink;
pub(crate) mod method;
pub(crate) mod node;
pub(crate) mod pairs;
pub(crate) mod states;
pub(crate) mod weighted;
