//! Filters, projections and unions on a device. In: device chunks. Out: device chunks, piece by piece.

pub(crate) mod choice;
pub(crate) mod distinct;
pub(crate) mod distinct_values;
pub(crate) mod evaluate;
pub(crate) mod filter;
pub(crate) mod on_host;
pub(crate) mod piecewise;
pub(crate) mod projection;
pub(crate) mod skip;
pub(crate) mod union;
