//! Scans of Parquet files, of any object store.
//!
//! ```text
//! DataSourceExec ─► Source ─► ParquetTable ─► files as they are now, their footers ─► pieces: whole row groups
//!                                                                                      └─► columns, by DataFusion's own reader
//! ```

pub(crate) mod file;
pub(crate) mod piece;
pub(crate) mod pieces;
pub(crate) mod prune;
pub(crate) mod read;
pub(crate) mod source;
pub(crate) mod table;
