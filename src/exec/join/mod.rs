//! Joins: a plan node, an async driver, and a state machine that walks the tiles of build and probe chunks.

pub(crate) mod display;
pub(crate) mod driver;
pub(crate) mod gather;
pub(crate) mod key_columns;
pub(crate) mod long_ranges;
pub(crate) mod needed_columns;
pub(crate) mod node;
pub(crate) mod null_aware;
pub(crate) mod pairs;
pub(crate) mod piece_size;
pub(crate) mod presorted;
pub(crate) mod residual;
pub(crate) mod run;
pub(crate) mod semi_bitmap;
pub(crate) mod single_pass;
pub(crate) mod tiles;
pub(crate) mod unmatched;
