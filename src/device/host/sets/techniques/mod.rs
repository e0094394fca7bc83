//! Techniques of set joins, one in each file, and the structures that they share.

pub(crate) mod binary_matrix;
pub(crate) mod bitmap;
pub(crate) mod hashed_bits;
pub(crate) mod intersect;
pub(crate) mod inverted;
pub(crate) mod mmjoin;
pub(crate) mod postings;
pub(crate) mod prefix;
pub(crate) mod published;
pub(crate) mod rarest;
pub(crate) mod signature;
pub(crate) mod verify;
