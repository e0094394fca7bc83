//! Batches, which operators exchange: columns on a device, as values or as codes, and the device that makes the values of codes.

pub(crate) mod batch;
pub(crate) mod batch_column;
pub(crate) mod encoded_column;
