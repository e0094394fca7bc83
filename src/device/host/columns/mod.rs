//! Columns on the host: transfer, gather, compaction, flags.

pub(crate) mod flags;
pub(crate) mod primitives;
pub(crate) mod values;
