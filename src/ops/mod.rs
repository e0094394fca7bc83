//! Joins of two chunks: the build side is indexed ([`BuildIndex`](build_index::BuildIndex)), the other side probes it
//! ([`Probe`](probe::Probe)).
//!
//! If equal keys are the whole condition (`equi`), the device indexes the build side by key, and finds a range for each
//! probe row. The strategies of theta joins differ in what they sort and what they test:
//!
//! | strategy | sorted by | candidates of a probe row | tested |
//! |---|---|---|---|
//! | range | the one column of all inequalities | exactly its matches | `<>` only |
//! | dominance | the most selective column (sampled) | the range on that column | the other comparisons, by zone maps |
//! | tiles | nothing | all rows (of its equality group) | every comparison, by zone maps; on a GPU by brute force, too |
//!
//! Equalities come first in all of these: the build side is grouped by them, and ranges are within groups.
//!
//! If a predicate on sets finds the matches (`set`), each probe row has a list of matches, and its range is the list's
//! positions. The build positions are those of all lists, in which a build row may occur many times. All further steps
//! are the same.

pub(crate) mod build_index;
pub(crate) mod compared;
pub(crate) mod intervals;
pub(crate) mod probe;
pub(crate) mod set_lists;
pub(crate) mod set_probe;
