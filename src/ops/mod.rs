//! The algorithms, each once, as sequences of device primitives.

pub(crate) mod theta;
