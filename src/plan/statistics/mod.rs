//! What is known of the rows of a plan's nodes before it runs: their number, distinct values of columns, where these come from, and
//! unique keys.

pub(crate) mod distinct;
pub(crate) mod origin;
pub(crate) mod share;
pub(crate) mod statistics_cache;
pub(crate) mod unique_keys;
