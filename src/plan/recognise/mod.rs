//! From nodes of DataFusion to specs, or to the reason why not.

pub(crate) mod aggregate;
pub(crate) mod band_rewrite;
pub(crate) mod condition;
pub(crate) mod first_last;
pub(crate) mod join;
pub(crate) mod join_aggregate;
pub(crate) mod set_predicate;
pub(crate) mod source;
