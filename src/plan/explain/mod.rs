//! What was decided on the nodes of a plan, for those who read about it.

pub(crate) mod decision;
pub(crate) mod node_kind;
pub(crate) mod recorder;
