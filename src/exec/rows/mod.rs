//! Filters, projections and unions of rows on a device.

pub(crate) mod evaluate;
pub(crate) mod filter;
pub(crate) mod projection;
pub(crate) mod union;
