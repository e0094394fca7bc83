//! Columns on the host: reservation of arrays, gather, compaction, match flags, values of text.

pub(crate) mod encode;
pub(crate) mod flags;
pub(crate) mod primitives;
pub(crate) mod text_values;
pub(crate) mod values;
