//! One runtime for a process: the devices, their memory, and what sessions share of them.

pub(crate) mod host_memory;
pub(crate) mod list;
pub(crate) mod planned_device;
pub(crate) mod process;
pub(crate) mod session_devices;
