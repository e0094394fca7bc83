//! Columns of tables that stay on a device, or prepared for it in host memory, between queries (`docs/internals/resident.md`).

pub(crate) mod array_key;
pub(crate) mod column_key;
pub(crate) mod column_store;
pub(crate) mod dictionaries;
pub(crate) mod file_key;
pub(crate) mod kept_column;
pub(crate) mod pin;
pub(crate) mod prepared_column;
pub(crate) mod scan;
pub(crate) mod scan_columns;
pub(crate) mod sent;
pub(crate) mod shelf;
pub(crate) mod snapshots;
pub(crate) mod table_snapshot;
pub(crate) mod upload;
