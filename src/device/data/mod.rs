//! Data on a device: buffers, columns, keys, indexes. Its contents are opaque to everyone but the device that made it.

pub(crate) mod block_extents;
pub(crate) mod buffer;
pub(crate) mod column;
pub(crate) mod decode_array;
pub(crate) mod encoding;
pub(crate) mod intervals;
pub(crate) mod key_bitmap;
pub(crate) mod keys;
pub(crate) mod matches;
pub(crate) mod opaque;
pub(crate) mod ranges;
pub(crate) mod results;
pub(crate) mod structures;
