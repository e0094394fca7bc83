//! Joins by an OR of conditions each of which has an index, as unions of joins. In: a logical join. Out: a union of joins in its place, of
//! which no two have a row in common; or nothing, where the join stays as it is.

mod index;
mod infallible;
mod inputs;
pub(crate) mod rule;
mod sides;
mod split;
mod union;
