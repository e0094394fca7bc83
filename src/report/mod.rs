//! What users read about plans, devices and running queries.

mod align;
mod build;
pub(crate) mod devices_function;
pub mod explain;
pub(crate) mod explain_function;
pub mod plan_report;
pub mod profile;
pub(crate) mod stats_function;
mod why;
