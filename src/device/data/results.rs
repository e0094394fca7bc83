//! What primitives return: matches of sets, joined columns, aggregated groups.

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::ir::strategies::GroupStrategy;

/// The matches of searching rows as lists.
#[derive(Debug)]
pub(crate) struct SetMatches {
    /// The matching rows of the indexed side, list after list: a row stands in as many as it matches. The lists are its segments, so
    /// that no range is taken for all rows.
    pub(crate) matches: OrderedRows,
    /// The searching rows in the order of their lists; those that can match nothing may be left out.
    pub(crate) probe: OrderedRows,
    /// Where in `matches` the list of each searching row lies. Every position lies in one.
    pub(crate) ranges: Ranges,
    pub(crate) tally: SetTally,
}

/// Which matches of sets are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetCounting {
    /// Those of searching rows: 1 or 0.
    Exists,
    /// Those of searching rows.
    Probe,
    /// Those of the rows of both sides.
    Both,
}

/// How many matches rows have.
#[derive(Debug)]
pub(crate) struct SetCounts {
    /// The searching rows by position; those that can match nothing may be left out.
    pub(crate) probe: OrderedRows,
    /// By position.
    pub(crate) counts: Buffer<u32>,
    /// Of each indexed row, where they are counted.
    pub(crate) indexed: Option<Buffer<u32>>,
    pub(crate) tally: SetTally,
}

/// Rows that are kept: how many, and their columns; `None` if all are.
pub(crate) type Kept = Option<(usize, Vec<Column>)>;

/// Pairs of an equi-join, put together: a column for each of the payload's, in any order of rows.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) rows: usize,
    pub(crate) build: Vec<Column>,
    pub(crate) probe: Vec<Column>,
}

/// What became of pairs that were to be put together at once.
#[derive(Debug)]
pub(crate) enum Paired {
    All(Joined),
    /// Several build rows have one key: sort-merge takes that as it comes.
    SharedKeys,
    /// So many pairs had better leave piece by piece.
    TooMany,
}

/// Groups of rows, and what was folded over each.
#[derive(Debug)]
pub(crate) struct Aggregated {
    pub(crate) groups: usize,
    /// One column for each key, a row a group.
    pub(crate) keys: Vec<Column>,
    /// One column for each fold, a row a group.
    pub(crate) states: Vec<Column>,
    /// What grouped them; nothing did without keys.
    pub(crate) strategy: Option<GroupStrategy>,
}

/// What was looked at on the way to the matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SetTally {
    /// Pairs of sets that filters or an index proposed.
    pub candidates: u64,
    /// Those of them whose elements were compared.
    pub verified: u64,
}

impl SetTally {
    pub(crate) fn add(&mut self, other: Self) {
        self.candidates += other.candidates;
        self.verified += other.verified;
    }
}
