//! Semi joins by key bitmap, and of presorted sides, on a GPU (`kernels/semi`).

pub(crate) mod key_bitmap;
pub(crate) mod presorted;
pub(crate) mod primitives;
