//! Graphs on a GPU (`kernels/graph`). Pairs of nodes enter; connected components leave.

pub(crate) mod components;
pub(crate) mod primitives;
