//! Key bitmaps and presorted sides.

pub(crate) mod distinct;
pub(crate) mod key_bitmap;
pub(crate) mod presorted;
