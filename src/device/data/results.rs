//! Results of primitives: counts of matches, matches of sets, joined columns, aggregated groups.

use std::fmt;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::ir::strategies::Grouping;

/// The number of matches of each probe position.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) counts: Buffer<u32>,
    pub(crate) by: Counter,
}

/// How matches were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counter {
    /// By the lengths of ranges: nothing is tested.
    Ranges,
    /// By tests of candidates, but for blocks on which zone maps decide.
    Walk,
    /// By merging both sides, halved by position.
    Merge,
    /// By a wavelet tree over the ranks of the one tested column.
    WaveletTree,
    /// By tests of all pairs (\[T\] 4.3.2).
    Tiles,
    /// By a compiled filter.
    Program,
}

impl Counter {
    pub(crate) fn of(self, counts: Buffer<u32>) -> Counted {
        Counted { counts, by: self }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ranges => "ranges",
            Self::Walk => "walk",
            Self::Merge => "merge",
            Self::WaveletTree => "wavelet_tree",
            Self::Tiles => "tiles",
            Self::Program => "filter",
        })
    }
}

/// The matches of probe rows as lists.
#[derive(Debug)]
pub(crate) struct SetMatches {
    /// The matching rows of the indexed side, list after list: a row occurs once in each list that has it. The lists are
    /// the segments, so that a range never covers rows of several lists.
    pub(crate) matches: OrderedRows,
    /// The probe rows in the order of their lists. Rows that can match nothing may be missing.
    pub(crate) probe: OrderedRows,
    /// The positions in `matches` of each probe row's list. Rows with equal sets may share one. Every position belongs to a list.
    pub(crate) ranges: Ranges,
    pub(crate) tally: SetTally,
}

/// Which set matches are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetCounting {
    /// For each probe row, 1 if it has a match, else 0.
    Exists,
    /// The matches of each probe row.
    Probe,
    /// The matches of each row of both sides.
    Both,
}

/// The number of matches of rows.
#[derive(Debug)]
pub(crate) struct SetCounts {
    /// The probe rows by position. Rows that can match nothing may be missing.
    pub(crate) probe: OrderedRows,
    /// By position.
    pub(crate) counts: Buffer<u32>,
    /// For each indexed row, if these are counted.
    pub(crate) indexed: Option<Buffer<u32>>,
    pub(crate) tally: SetTally,
}

/// The rows that pass a filter: their number and their columns; `None` if all pass.
pub(crate) type Kept = Option<(usize, Vec<Column>)>;

/// The output rows of an equi-join: one column for each payload column, rows in any order.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) rows: usize,
    pub(crate) build: Vec<Column>,
    pub(crate) probe: Vec<Column>,
}

/// The result of a single-pass join.
#[derive(Debug)]
pub(crate) enum Paired {
    All(Joined),
    /// Build keys are not unique, which only sort-merge supports.
    SharedKeys,
    /// There are too many matches: they have to be output batch by batch.
    TooMany,
}

/// Groups of rows, and their aggregates.
#[derive(Debug)]
pub(crate) struct Aggregated {
    pub(crate) groups: usize,
    /// One column for each key, one row for each group.
    pub(crate) keys: Vec<Column>,
    /// One column for each fold, one row for each group.
    pub(crate) states: Vec<Column>,
    /// What ran.
    pub(crate) by: Grouping,
}

/// The work of a set join.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SetTally {
    /// The pairs of sets that filters or an index proposed.
    pub candidates: u64,
    /// The candidates whose elements were compared.
    pub verified: u64,
    /// The probe rows that were searched with a row of an equal set.
    pub repeats: u64,
}

impl SetTally {
    pub(crate) fn add(&mut self, other: Self) {
        self.candidates += other.candidates;
        self.verified += other.verified;
        self.repeats += other.repeats;
    }
}
