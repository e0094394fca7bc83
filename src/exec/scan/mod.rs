//! Scans of tables whose columns stay on the device (`docs/internals/resident.md`).

pub(crate) mod memory_table;
pub(crate) mod node;
pub(crate) mod snapshot_source;
