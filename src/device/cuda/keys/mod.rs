//! Order keys, group ids and sorting on a GPU (`kernels/keys`): key columns become words that kernels compare.

pub(crate) mod group_ids;
pub(crate) mod key_column;
pub(crate) mod key_width;
pub(crate) mod order_keys;
pub(crate) mod pack;
pub(crate) mod primitives;
pub(crate) mod ranks;
pub(crate) mod sort;
pub(crate) mod sort_rows;
pub(crate) mod tuples;
