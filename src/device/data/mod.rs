//! What is stored on a device: buffers, columns, keys, indexes; opaque to all but the device that made them.

pub(crate) mod batch;
pub(crate) mod buffer;
