//! What users read about decisions and devices.

pub(crate) mod decision;
pub(crate) mod devices_function;
pub(crate) mod explain_function;
