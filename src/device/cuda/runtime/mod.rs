//! The card: driver, context, streams, memory, launches, transfers.

pub(crate) mod access;
pub(crate) mod arguments;
pub(crate) mod clusters;
pub(crate) mod driver;
pub(crate) mod event;
pub(crate) mod gpu;
pub(crate) mod in_launches;
pub(crate) mod kernel_cache;
pub(crate) mod kernels;
pub(crate) mod launch;
pub(crate) mod memory;
pub(crate) mod ptx_entries;
pub(crate) mod spans;
pub(crate) mod staging;
pub(crate) mod sticky_error;
pub(crate) mod stream;
pub(crate) mod symbols;
pub(crate) mod when_idle;
