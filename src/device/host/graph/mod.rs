//! Graphs on the host: connected components.

pub(crate) mod components;
pub(crate) mod primitives;
