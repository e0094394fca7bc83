//! Set joins.

pub(crate) mod encode;
pub(crate) mod pairs;
pub(crate) mod self_join;
pub(crate) mod set_joins;
