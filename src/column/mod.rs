//! Batches whose columns lie on a device.

mod batch;

pub(crate) use batch::DeviceBatch;
