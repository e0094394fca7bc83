//! What happens when memory is short: retry, evict, spill.

pub(crate) mod compact_views;
pub(crate) mod evict;
pub(crate) mod retry;
pub(crate) mod spill;
pub(crate) mod spilled_chunk;
pub(crate) mod spilled_groups;
