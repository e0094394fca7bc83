//! The chunks that a device node reads: coalesced, prefetched.

pub(crate) mod chunk;
pub(crate) mod coalesce;
pub(crate) mod prefetch;
