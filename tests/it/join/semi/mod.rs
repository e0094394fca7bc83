//! Semi, anti and mark joins on equal keys, and joins of presorted sides.

mod key_bitmap;
mod presorted;
