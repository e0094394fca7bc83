//! Filters, projections, unions and their expressions.

mod fallible;
mod resident;
mod subqueries;
