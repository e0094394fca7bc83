//! The CPU backend: Rust on a thread pool of all cores, one folder for each family of primitives. It is the executable
//! specification of every other device.

pub(crate) mod aggregate;
pub(crate) mod columns;
pub(crate) mod device;
pub(crate) mod equi;
pub(crate) mod expr;
pub(crate) mod fast_paths;
pub(crate) mod graph;
pub(crate) mod keys;
pub(crate) mod natives;
pub(crate) mod pace;
pub(crate) mod semi;
pub(crate) mod sets;
pub(crate) mod theta;
