//! Grouped aggregation over any rows. In: device chunks. Out: one row for each group. Chunks are grouped on the device
//! (`run.rs`), their groups are merged (`partials.rs`, `group_table.rs`, `resident.rs`), and DataFusion's accumulators
//! finish them.

pub(crate) mod collect_values;
pub(crate) mod distinct;
pub(crate) mod distinct_rows;
pub(crate) mod final_values;
pub(crate) mod finish;
pub(crate) mod first_last;
pub(crate) mod fused;
pub(crate) mod grace_aggregate;
pub(crate) mod group_spill;
pub(crate) mod group_table;
pub(crate) mod group_values;
pub(crate) mod node;
pub(crate) mod output;
pub(crate) mod partials;
pub(crate) mod resident;
pub(crate) mod run;
pub(crate) mod states;
