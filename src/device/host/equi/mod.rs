//! Equi-joins on the host: an index of the build side, its probe, and single-pass inner joins.

pub(crate) mod index;
pub(crate) mod primitives;
pub(crate) mod single_pass;
