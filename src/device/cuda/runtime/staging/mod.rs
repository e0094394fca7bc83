//! Transfers between host memory and a GPU through pinned memory.

pub(crate) mod copy_pool;
pub(crate) mod narrow;
pub(crate) mod pinned_word;
pub(crate) mod ring;
pub(crate) mod transfer;
pub(crate) mod word;
