//! The runtime of a process: its devices, their memory, and what sessions share of them.

pub(crate) mod card_failures;
#[cfg(feature = "cuda")]
pub(crate) mod gpus;
#[cfg(not(feature = "cuda"))]
#[path = "no_gpus.rs"]
pub(crate) mod gpus;
pub(crate) mod host_memory;
pub(crate) mod host_rates;
pub(crate) mod kept_rates;
pub(crate) mod list;
pub(crate) mod planned_device;
pub(crate) mod planning;
pub(crate) mod process;
pub(crate) mod rates;
pub(crate) mod session_devices;
