//! Columns on the host: reservation of arrays, gather, compaction, match flags.

pub(crate) mod encode;
pub(crate) mod flags;
pub(crate) mod primitives;
pub(crate) mod values;
