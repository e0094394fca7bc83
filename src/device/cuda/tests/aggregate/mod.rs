//! Grouped aggregation.

pub(crate) mod dependent_keys;
pub(crate) mod direct_address;
pub(crate) mod fold;
pub(crate) mod group_program;
pub(crate) mod part_tables;
pub(crate) mod runs;
pub(crate) mod short_text;
pub(crate) mod strategies;
