//! Filters, projections, unions and their expressions.

mod distinct;
mod ends;
mod fallible;
mod resident;
mod subqueries;
