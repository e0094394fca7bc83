//! One small query for each bug that was found by a larger test.

mod aggregates;
mod joins;
mod not_in;
mod plans;
mod stages;
