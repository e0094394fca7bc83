//! Grouped aggregation on a GPU (`kernels/aggregate`): key columns and columns to aggregate enter; one row per group
//! leaves.

pub(crate) mod accumulate;
pub(crate) mod by_ids;
pub(crate) mod choose;
pub(crate) mod decode_keys;
pub(crate) mod dense_ids;
pub(crate) mod dependent_keys;
pub(crate) mod direct_address;
pub(crate) mod direct_keys;
pub(crate) mod directory;
pub(crate) mod fold;
pub(crate) mod ids_by_hashing;
pub(crate) mod materialization;
pub(crate) mod part_tables;
pub(crate) mod partition;
pub(crate) mod partitioner;
pub(crate) mod primitives;
pub(crate) mod results;
pub(crate) mod runs;
pub(crate) mod sample;
pub(crate) mod short_text;
pub(crate) mod sorted_words;
pub(crate) mod strategies;
pub(crate) mod strategy_run;
pub(crate) mod variance;
