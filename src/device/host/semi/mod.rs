//! Semi joins on the host, by a bitmap of keys.

pub(crate) mod key_bitmap;
pub(crate) mod primitives;
