//! From nodes of DataFusion to specs, or to the reason why there is none: once for each node.

pub(crate) mod aggregate;
pub(crate) mod aggregate_function;
pub(crate) mod aggregate_source;
pub(crate) mod candidate;
pub(crate) mod condition;
pub(crate) mod first_last;
pub(crate) mod join;
pub(crate) mod join_aggregate;
pub(crate) mod join_source;
pub(crate) mod key_types;
pub(crate) mod lone_stage;
pub(crate) mod partial_states;
pub(crate) mod partners;
pub(crate) mod recognised_plan;
pub(crate) mod refusal;
mod rewrites;
pub(crate) mod set_predicate;
pub(crate) mod set_value;
pub(crate) mod sides;
pub(crate) mod sort;
pub(crate) mod source;
