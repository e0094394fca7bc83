//! Aggregations that are fused with the join below them: forced and stock give the same rows, floats up to rounding.

mod arguments;
mod check;
mod fused;
mod grouped;
mod intervals;
mod overlaps;
mod two_inequalities;
mod ways;
