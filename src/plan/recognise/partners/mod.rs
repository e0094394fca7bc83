//! Which of its partners each row of a join keeps, as a device knows it.

pub(crate) mod by_range;
pub(crate) mod kept;
pub(crate) mod pair_values;
mod same_value;
