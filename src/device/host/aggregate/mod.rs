//! Grouped aggregation on the host: key columns and columns to aggregate enter; one row per group leaves.

pub(crate) mod fold;
pub(crate) mod group_program;
pub(crate) mod grouped;
pub(crate) mod primitives;
pub(crate) mod runs;
pub(crate) mod strategies;
