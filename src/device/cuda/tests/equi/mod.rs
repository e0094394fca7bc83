//! Equi-joins.

pub(crate) mod index;
pub(crate) mod sample;
pub(crate) mod single_pass;
