//! What DataFusion's memory pool cannot hold is spilled and read again: the same rows as without a limit.

mod aggregate;
pub(crate) mod check;
mod join;
pub(crate) mod staged;
