//! Tiles of the join matrix, one left chunk by one right chunk each: the walk over them, their cuts, and the step that
//! joins one.

pub(crate) mod cut;
pub(crate) mod evict;
pub(crate) mod matrix;
pub(crate) mod passes;
pub(crate) mod probed_tile;
pub(crate) mod step;
pub(crate) mod tile;
