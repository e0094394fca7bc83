//! Encoding: lists of any type become ascending sets of numbers.

pub(crate) mod dictionary;
pub(crate) mod element_ids;
pub(crate) mod encoding;
pub(crate) mod leased_elements;
pub(crate) mod members;
