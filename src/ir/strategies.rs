//! Strategies that a device may be asked for: of theta joins, equi-joins, materialisation and grouped aggregation.

use std::fmt;

use crate::ir::set_predicate::SetTechnique;

/// How rows come to their groups. Names in parentheses are those of \[W\].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GroupStrategy {
    /// A hash table, and accumulators where each block of threads has memory of its own (HGB, section 4.2).
    HashShared,
    /// The same, in the memory that all share.
    HashGlobal,
    /// Keys and values go to parts first, each of which is grouped by itself (PGB-GFTR).
    Partition,
    /// Rows in the order of their keys, and a reduction of segments (SGB-GFTR).
    Sort,
    /// Rows in the order of numbers that hashing gave the keys, which are shorter (SGB-DE).
    SortDictionary,
}

impl GroupStrategy {
    pub(crate) const ALL: [Self; 5] = [
        Self::HashShared,
        Self::HashGlobal,
        Self::Partition,
        Self::Sort,
        Self::SortDictionary,
    ];

    /// As `SET` and `EXPLAIN` write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HashShared => "hash_shared",
            Self::HashGlobal => "hash_global",
            Self::Partition => "partition",
            Self::Sort => "sort",
            Self::SortDictionary => "sort_dict",
        }
    }
}

impl fmt::Display for GroupStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a join's condition is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Strategy {
    /// Equalities alone find the pairs. Without a way of finding them, the device chooses it.
    Equi(Option<EquiStrategy>),
    /// One sorted column; every searching row matches one range of it.
    Range,
    /// One sorted column and tests on others, with zone maps; the sorted column is chosen by sampled selectivity.
    Dominance,
    /// Every pair (inside each equality group) that zone maps cannot reject is tested.
    Tiles,
    /// A predicate on sets finds the pairs (inside each equality group). Without a technique, the device chooses it.
    Set(Option<SetTechnique>),
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equi(None) => "equi",
            Self::Equi(Some(strategy)) => return strategy.fmt(f),
            Self::Range => "range",
            Self::Dominance => "dominance",
            Self::Tiles => "tiles",
            Self::Set(None) => "set",
            Self::Set(Some(technique)) => return write!(f, "set_{technique}"),
        })
    }
}

/// How rows with equal keys find each other (\[W\] section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EquiStrategy {
    /// An array of the build rows by the distance of their key from the least one.
    Direct,
    /// One hash table of all build rows: NPHJ.
    Hash,
    /// Both sides partitioned by their keys' hashes, a small table for each partition: PHJ.
    PartitionedHash,
    /// Both sides sorted, and merged: SMJ.
    SortMerge,
}

impl EquiStrategy {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [
        Self::Direct,
        Self::Hash,
        Self::PartitionedHash,
        Self::SortMerge,
    ];
}

impl fmt::Display for EquiStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Hash => "hash",
            Self::PartitionedHash => "partitioned_hash",
            Self::SortMerge => "sort_merge",
        })
    }
}

/// How the columns of an equi-join's pairs are put together (\[W\] section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Materialization {
    /// Row numbers are carried through the join, and columns gathered by them at the end: from untransformed relations.
    Gfur,
    /// Columns are carried through it, as the keys are: gathered from transformed relations.
    Gftr,
}

impl fmt::Display for Materialization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gfur => "gfur",
            Self::Gftr => "gftr",
        })
    }
}
