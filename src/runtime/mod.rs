//! The devices of the process.

pub(crate) mod registry;
