//! Techniques of set joins, one per file: encoded sets of both sides enter, the launches that test candidates leave.

pub(crate) mod bit_rows;
pub(crate) mod intersect;
pub(crate) mod inverted;
pub(crate) mod mmjoin;
pub(crate) mod prefix;
pub(crate) mod published;
pub(crate) mod rarest;
