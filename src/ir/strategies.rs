//! Strategies of theta joins, equi-joins, materialisation and grouped aggregation, as options and plans name them.

use std::fmt;

use crate::ir::set_predicate::SetTechnique;

/// How rows are assigned to groups. Names in parentheses are those of \[W\], where the strategy is that algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum GroupStrategy {
    /// Accumulators in the shared memory of each thread block; keys by direct address, by numbers that hashing gave
    /// them (HGB, 4.2), or in one table with the accumulators.
    HashShared,
    /// The same in global memory, with hot keys in shared memory.
    HashGlobal,
    /// Keys and values are partitioned first. On a GPU keys of one word have a table in shared memory for each partition
    /// (PGB, 4.3); others are added, one partition after the other, to accumulators in global memory, which the L2 cache
    /// then holds. On the host each partition is grouped by itself.
    Partition,
    /// Rows in key order, and a segmented reduction: SGB, with GFTR (4.1.3) or GFUR (3.2.2).
    Sort,
    /// Rows in the order of numbers that hashing gave the keys: SGB-DE (4.4).
    SortDictionary,
    /// Rows that are in an order of their keys already: each run of equal keys is a group, folded as it is (\[D\]'s segmented reduction, table 1).
    Runs,
}

impl GroupStrategy {
    pub(crate) const ALL: [Self; 6] = [
        Self::HashShared,
        Self::HashGlobal,
        Self::Partition,
        Self::Sort,
        Self::SortDictionary,
        Self::Runs,
    ];

    /// The name in `SET` and `EXPLAIN`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HashShared => "hash_shared",
            Self::HashGlobal => "hash_global",
            Self::Partition => "partition",
            Self::Sort => "sort",
            Self::SortDictionary => "sort_dict",
            Self::Runs => "runs",
        }
    }
}

impl fmt::Display for GroupStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How rows are grouped: as wanted, or as it was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Grouping {
    /// As wanted: `None` where the device chooses. As done: `None` without keys.
    pub(crate) strategy: Option<GroupStrategy>,
    /// Of the columns, by strategies that partition or sort rows. As done: `None` by others.
    pub(crate) materialization: Option<Materialization>,
}

impl Grouping {
    /// The device chooses.
    pub(crate) const AUTO: Self = Self {
        strategy: None,
        materialization: None,
    };
}

impl From<Option<GroupStrategy>> for Grouping {
    fn from(strategy: Option<GroupStrategy>) -> Self {
        Self {
            strategy,
            ..Self::AUTO
        }
    }
}

/// The algorithm of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Strategy {
    /// Equalities are the whole condition that finds matches. `None`: the device chooses the strategy.
    Equi(Option<EquiStrategy>),
    /// One sorted column; every probe row matches one range of it.
    Range,
    /// One sorted column, and tests of others with zone maps. Sampled selectivities decide which column is sorted.
    Dominance,
    /// Every pair (within an equality group) that zone maps cannot reject is tested.
    Tiles,
    /// A predicate on sets finds the matches (within an equality group). `None`: the device chooses the technique.
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

/// The algorithms of equi-joins (\[W\] 3.1; direct address is not there).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EquiStrategy {
    /// An array of the build rows, indexed by the distance of their key from the least one.
    Direct,
    /// One hash table of all build rows: NPHJ.
    Hash,
    /// Both sides partitioned by the hashes of their keys, and a small table for each partition of unique build keys:
    /// PHJ. Duplicate keys are sorted within partitions, and found as ranges.
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

/// How columns are materialised (\[W\] 4.1): those of an equi-join's matches, or those that a grouped aggregation folds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Materialization {
    /// Row ids are carried with the keys, and columns gathered by them at the end: from untransformed relations
    /// (4.1.1).
    Gfur,
    /// Columns are carried with the keys: gathered from transformed relations (4.1.2).
    Gftr,
}

impl fmt::Display for Materialization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gfur => "late",
            Self::Gftr => "early",
        })
    }
}
