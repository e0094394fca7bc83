//! Graphs.

pub(crate) mod components;
