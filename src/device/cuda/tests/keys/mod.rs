//! Order keys and group ids.

pub(crate) mod group_ids;
pub(crate) mod order_keys;
