//! What `plan` says and `exec` does, as plain data: it can be printed, tested without a device, and costed.

pub(crate) mod aggregate;
pub(crate) mod algorithm;
pub(crate) mod clusters;
pub(crate) mod guard;
pub(crate) mod interval;
pub(crate) mod join;
pub(crate) mod join_aggregate;
pub(crate) mod operator_kind;
pub(crate) mod partners;
pub(crate) mod rows;
pub(crate) mod scalar_word;
pub(crate) mod sort;
