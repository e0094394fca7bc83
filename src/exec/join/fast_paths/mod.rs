//! Joins that take another way than the tiles of [`walk`](crate::exec::join::walk): one for each file, whose function `of` is the predicate
//! that says whether it serves a join. Each pays most for data that is on the device already; the rows are the same.

pub(crate) mod presorted;
pub(crate) mod semi_bitmap;
pub(crate) mod single_pass;
