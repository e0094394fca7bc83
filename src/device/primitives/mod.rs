//! The primitives of a device: one trait for each family.

pub(crate) mod aggregate;
pub(crate) mod device;
pub(crate) mod equi;
pub(crate) mod expr;
pub(crate) mod fast_paths;
pub(crate) mod folds;
pub(crate) mod graph;
pub(crate) mod intervals;
pub(crate) mod keys;
pub(crate) mod rows;
pub(crate) mod semi;
pub(crate) mod sets;
pub(crate) mod theta;
pub(crate) mod transfer;
