//! Joins: a plan node, an async driver that reads both inputs, and a blocking state machine that walks the tiles of
//! build and probe chunks. In: chunks of both inputs. Out: chunks of output rows, or partial states of groups
//! (`join_aggregate/`).

pub(crate) mod best_partners;
pub(crate) mod display;
pub(crate) mod driver;
pub(crate) mod fast_paths;
pub(crate) mod gather;
pub(crate) mod grace_join;
pub(crate) mod key_columns;
pub(crate) mod long_ranges;
pub(crate) mod narrow_keys;
pub(crate) mod needed_columns;
pub(crate) mod node;
pub(crate) mod null_aware;
pub(crate) mod pairs;
pub(crate) mod piece_size;
pub(crate) mod reduction;
pub(crate) mod residual;
pub(crate) mod row_sink;
pub(crate) mod slices;
pub(crate) mod tiles;
pub(crate) mod unmatched;
pub(crate) mod walk;
