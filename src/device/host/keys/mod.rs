//! Order keys, group ids and sorting on the host. In: key columns. Out: words, ids or row ids.

pub(crate) mod group_ids;
pub(crate) mod order_keys;
pub(crate) mod primitives;
pub(crate) mod row_order;
pub(crate) mod sort;
pub(crate) mod sort_parts;
pub(crate) mod sort_rows;
