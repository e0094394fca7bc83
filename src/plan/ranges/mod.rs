//! Joins of comparisons without an equality, divided among workers by ranges of values. An engine knows two ways to divide a join: by the hashes of
//! keys that are equal, or by the rows of one side, with the other side sent to all workers. Here the numbers of ranges become such keys.
//!
//! ```text
//! a.at BETWEEN b.start AND b.stop          a: at = 17 ─► range 3        b: [12, 23] ─► ranges 2, 3 ─► two rows
//!
//! NestedLoopJoinExec: filter    ─►    HashJoinExec: a.range = b.range, filter
//!   a                                   ProjectionExec: bowtie_range(at)
//!   b                                   UnnestExec: bowtie_ranges(start, stop)
//! ```
//!
//! A pair that matches meets in one range, which decides nothing: the filter stays. The number of a range grows with the value, so that it
//! does not matter either how well the ranges fit the values.

pub(crate) mod bounds;
pub(crate) mod divided;
pub(crate) mod extent;
pub(crate) mod rule;
pub(crate) mod spread;
