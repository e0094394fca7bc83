//! Joins of two chunks: one side is indexed ([`BuildIndex`](build_index::BuildIndex)), the other searches it ([`Probe`](probe::Probe)).
//!
//! Where equal keys alone decide (`equi`), the device indexes one side by them, and finds each row of the other a range of it. The
//! strategies of theta joins differ in what they sort and what they test:
//!
//! | strategy | sorted by | a searching row's candidates | tested |
//! |---|---|---|---|
//! | range | the one column of all inequalities | exactly its matches | `<>` only |
//! | dominance | the most selective column (sampled) | the range on that column | the other comparisons, by zone maps |
//! | tiles | nothing | all rows (of its equality group) | every comparison, by zone maps; on a GPU by brute force too |
//!
//! Equalities come first in each of these: the sorted side is grouped by them, and a range lies inside its group.
//!
//! Where a predicate on sets finds the pairs (`set`), each searching row's matches are listed, and its range is its list: the sorted
//! positions are those of all lists, in which a row may stand many times. What follows is the same.

pub(crate) mod build_index;
pub(crate) mod probe;
pub(crate) mod set_lists;
pub(crate) mod set_probe;
