//! Set joins on the host (\[B\] chapters 4 to 6): one side's lists are encoded and indexed, the other side's probe the index.

pub(crate) mod block;
pub(crate) mod choice;
pub(crate) mod collect;
pub(crate) mod encode;
pub(crate) mod finder;
pub(crate) mod index;
pub(crate) mod primitives;
pub(crate) mod probe_side;
pub(crate) mod self_join;
pub(crate) mod techniques;
