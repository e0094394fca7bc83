//! The physical optimizer rule: recognise a node, choose where it runs, replace it, explain it.

pub(crate) mod aggregated_values;
pub(crate) mod cache;
#[cfg(test)]
pub(crate) mod calls;
pub(crate) mod choose;
pub(crate) mod clusters;
pub(crate) mod clusters_table;
#[cfg(feature = "codec")]
pub(crate) mod codec;
pub(crate) mod compile;
pub(crate) mod device_plan;
pub(crate) mod disjunctions;
pub(crate) mod entrance;
pub(crate) mod explain;
pub(crate) mod partners;
#[cfg(feature = "faults")]
pub(crate) mod planning_faults;
pub(crate) mod query_ends;
pub(crate) mod query_text;
#[cfg(feature = "stages")]
pub(crate) mod ranges;
pub(crate) mod recognise;
pub(crate) mod rewrite;
pub(crate) mod row_ends;
pub(crate) mod rule;
pub(crate) mod set_values;
pub(crate) mod snapshots;
pub(crate) mod sources;
#[cfg(feature = "stages")]
pub(crate) mod stage;
pub(crate) mod statistics;
pub(crate) mod transfers;
