//! Joins of which each row keeps only some of its partners: as-of joins, nearest neighbours, the first `k` partners. In: `row_number()` and a
//! filter of it above a join. Out: an [`ExtendedJoinExec`](crate::plan::sources::extended_join::ExtendedJoinExec) in their place, if bowtie keeps partners by ranges, or finds
//! pairs by an index, of which it keeps the best ones.

mod distances;
pub(crate) mod function;
mod intervals;
pub(crate) mod lateral;
pub(crate) mod numbered;
pub(crate) mod ranked;
pub(crate) mod replace;
mod row_numbers;
mod similar;
