//! Order keys, group ids and rows in order.

pub(crate) mod group_ids;
pub(crate) mod order_keys;
pub(crate) mod sort_rows;
