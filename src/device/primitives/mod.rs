//! The primitives of a device: a trait for each family.

pub(crate) mod device;
