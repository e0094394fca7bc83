//! Grouped aggregation: forced and stock give the same rows, floats up to rounding.

pub(crate) mod check;
mod collect_values;
mod data_types;
mod dependent_keys;
mod distinct;
mod first_last;
mod grouping;
mod inputs;
mod names;
mod short_text;
mod strategies;
mod variance;
