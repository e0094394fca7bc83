//! What is stored on a device: buffers, columns, keys, indexes; opaque to all but the device that made them.

pub(crate) mod batch;
pub(crate) mod buffer;
pub(crate) mod column;
pub(crate) mod key_bitmap;
pub(crate) mod keys;
pub(crate) mod matches;
pub(crate) mod opaque;
pub(crate) mod ranges;
pub(crate) mod results;
pub(crate) mod structures;
