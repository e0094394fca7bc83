//! Filters, projections, unions and their expressions.

mod distinct;
mod fallible;
mod resident;
mod subqueries;
