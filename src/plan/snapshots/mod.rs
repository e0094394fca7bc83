//! Snapshots of tables in memory, so that planning does not copy their lists of batches.

pub(crate) mod query_planner;
pub(crate) mod scans;
pub(crate) mod snapshot_table;
