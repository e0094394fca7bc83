//! Set joins on a GPU (`kernels/sets`): lists are encoded as sets, indexed by a technique, probed, and matched.

pub(crate) mod choose;
pub(crate) mod costs;
pub(crate) mod encode;
pub(crate) mod index;
pub(crate) mod match_lists;
pub(crate) mod predicate;
pub(crate) mod primitives;
pub(crate) mod search;
pub(crate) mod techniques;
pub(crate) mod values;
