//! Columns: transfers, text.

pub(crate) mod kept;
pub(crate) mod text;
pub(crate) mod transfer;
