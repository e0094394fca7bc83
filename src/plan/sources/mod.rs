//! What nodes of a plan say that bowtie replaces: DataFusion's joins and aggregations, and the nodes that stand for them while a plan is
//! rewritten.

pub(crate) mod aggregate_source;
pub(crate) mod extended_join;
pub(crate) mod join_nodes;
pub(crate) mod join_source;
pub(crate) mod lone_stage;
pub(crate) mod partitions;
pub(crate) mod set_value;
