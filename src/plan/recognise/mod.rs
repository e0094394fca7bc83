//! From nodes of DataFusion to specs, or to the reason why there is none: once for each node.

pub(crate) mod aggregate;
pub(crate) mod aggregate_function;
pub(crate) mod candidate;
pub(crate) mod condition;
pub(crate) mod first_last;
pub(crate) mod fusion;
pub(crate) mod gain;
pub(crate) mod join;
pub(crate) mod join_aggregate;
pub(crate) mod partial_states;
pub(crate) mod partners;
pub(crate) mod recognised_plan;
pub(crate) mod refusal;
mod rewrites;
pub(crate) mod set_predicate;
pub(crate) mod sort;
pub(crate) mod strategy;
