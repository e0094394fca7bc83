//! Lists as sets of elements: when two elements are equal, when two lists are the same.

pub(crate) mod elements;
pub(crate) mod same_lists;
