//! Equi-joins.

pub(crate) mod equi_joins;
