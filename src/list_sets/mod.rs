//! Lists as sets of elements: equality of elements, and equality of list columns.

pub(crate) mod elements;
pub(crate) mod same_lists;
