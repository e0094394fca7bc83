//! Tiles of build and probe chunks: the walk over them, how they are cut, and what one step does.

pub(crate) mod cut;
pub(crate) mod matrix;
pub(crate) mod probed_tile;
pub(crate) mod step;
pub(crate) mod tile;
