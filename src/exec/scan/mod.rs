//! Scans of tables whose columns stay on the device (`docs/internals/resident.md`).

pub(crate) mod limits;
pub(crate) mod loader;
pub(crate) mod memory_table;
pub(crate) mod node;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod read_columns;
pub(crate) mod scan_filter;
pub(crate) mod snapshot_source;
#[cfg_attr(
    not(feature = "parquet"),
    expect(unused_variables, reason = "what only files need")
)]
pub(crate) mod table;
