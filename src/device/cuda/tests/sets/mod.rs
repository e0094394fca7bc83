//! Set joins.

pub(crate) mod compare;
pub(crate) mod encode;
pub(crate) mod equal_sets;
pub(crate) mod search;
pub(crate) mod self_join;
pub(crate) mod set_joins;
pub(crate) mod signatures;
