//! What happens if memory is short: a step is attempted, evicts, works on fewer rows, spills, and is retried.

pub(crate) mod compact_views;
pub(crate) mod on_request;
pub(crate) mod shrink;
pub(crate) mod spill;
pub(crate) mod spilled_chunk;
pub(crate) mod spilled_groups;
pub(crate) mod step;
