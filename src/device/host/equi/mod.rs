//! Equi-joins on the host.

pub(crate) mod index;
pub(crate) mod primitives;
pub(crate) mod single_pass;
