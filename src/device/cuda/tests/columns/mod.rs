//! Columns: transfers, text.

pub(crate) mod text;
pub(crate) mod transfer;
