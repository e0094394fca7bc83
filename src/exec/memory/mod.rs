//! What happens when memory is short: attempt, evict, shrink, spill, retry.

pub(crate) mod compact_views;
pub(crate) mod evict;
pub(crate) mod shrink;
pub(crate) mod spill;
pub(crate) mod spilled_chunk;
pub(crate) mod spilled_groups;
pub(crate) mod step;
