//! The chunks that a device node reads: resident pieces coalesced to chunks, and the next chunk prefetched.

pub(crate) mod chunk;
pub(crate) mod coalesce;
pub(crate) mod gathered;
pub(crate) mod prefetch;
pub(crate) mod resident_chunk;
pub(crate) mod waiting;
