//! Techniques of set joins, a file each.

pub(crate) mod bit_rows;
pub(crate) mod intersect;
pub(crate) mod inverted;
pub(crate) mod prefix;
pub(crate) mod rarest;
pub(crate) mod signature;
