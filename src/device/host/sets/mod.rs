//! Set joins on the host (\[B\] chapters 4 to 6): the lists of one side are encoded and indexed, those of the other
//! side probe the index.

pub(crate) mod block;
pub(crate) mod choose;
pub(crate) mod collect;
pub(crate) mod encode;
pub(crate) mod finder;
pub(crate) mod index;
pub(crate) mod pair_overlaps;
pub(crate) mod primitives;
pub(crate) mod probe_side;
pub(crate) mod self_join;
pub(crate) mod techniques;
pub(crate) mod values;
