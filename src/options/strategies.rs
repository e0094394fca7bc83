//! The options that name a strategy: of joins by comparisons, by equality and by sets, of aggregations.

use std::fmt;
use std::str::FromStr;

use datafusion::common::config_err;
use datafusion::error::{DataFusionError, Result};

use crate::ir::set_predicate::SetTechnique;
use crate::ir::strategies::{
    EquiStrategy, GroupStrategy as GroupAlgorithm, Materialization, Strategy,
};

/// `bowtie.theta_strategy`: a strategy, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThetaStrategy(pub(crate) Option<Strategy>);

impl ThetaStrategy {
    /// Chosen by what there is to do.
    pub const AUTO: Self = Self(None);
    /// A range of one sorted column.
    pub const RANGE: Self = Self(Some(Strategy::Range));
    /// A range of one sorted column, and tests of the other comparisons by zone maps.
    pub const DOMINANCE: Self = Self(Some(Strategy::Dominance));
    /// All pairs are tested.
    pub const TILES: Self = Self(Some(Strategy::Tiles));
}

impl FromStr for ThetaStrategy {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        Ok(Self(match value.trim().to_ascii_lowercase().as_str() {
            "auto" => None,
            "range" => Some(Strategy::Range),
            "dominance" => Some(Strategy::Dominance),
            "tiles" => Some(Strategy::Tiles),
            _ => {
                return config_err!(
                    "bowtie.theta_strategy cannot be '{value}': use auto, range, dominance or tiles"
                );
            }
        }))
    }
}

impl fmt::Display for ThetaStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(strategy) => write!(f, "{strategy}"),
        }
    }
}

/// `bowtie.equi_join_strategy`: a strategy of equi-joins, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EquiJoinStrategy(pub(crate) Option<EquiStrategy>);

impl EquiJoinStrategy {
    /// Chosen by what there is to do.
    pub const AUTO: Self = Self(None);
    /// The key is an array index, or a bit where only existence matters.
    pub const DIRECT: Self = Self(Some(EquiStrategy::Direct));
    /// One hash table.
    pub const HASH: Self = Self(Some(EquiStrategy::Hash));
    /// A hash table for each partition.
    pub const PARTITIONED_HASH: Self = Self(Some(EquiStrategy::PartitionedHash));
    /// Both sides are sorted.
    pub const SORT_MERGE: Self = Self(Some(EquiStrategy::SortMerge));
}

impl FromStr for EquiJoinStrategy {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        Ok(Self(match value.trim().to_ascii_lowercase().as_str() {
            "auto" => None,
            "direct" => Some(EquiStrategy::Direct),
            "hash" | "nphj" => Some(EquiStrategy::Hash),
            "partitioned_hash" | "phj" => Some(EquiStrategy::PartitionedHash),
            "sort_merge" | "smj" => Some(EquiStrategy::SortMerge),
            _ => {
                return config_err!(
                    "bowtie.equi_join_strategy cannot be '{value}': use auto, direct, hash, partitioned_hash or sort_merge"
                );
            }
        }))
    }
}

impl fmt::Display for EquiJoinStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(strategy) => strategy.fmt(f),
        }
    }
}

/// `bowtie.materialization`: a materialisation, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaterializationChoice(pub(crate) Option<Materialization>);

impl MaterializationChoice {
    /// Chosen by what there is to do.
    pub const AUTO: Self = Self(None);
    /// Gathered by row ids after the join.
    pub const LATE: Self = Self(Some(Materialization::Gfur));
    /// Carried through the join.
    pub const EARLY: Self = Self(Some(Materialization::Gftr));
}

impl FromStr for MaterializationChoice {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        Ok(Self(match value.trim().to_ascii_lowercase().as_str() {
            "auto" => None,
            "late" | "gfur" => Some(Materialization::Gfur),
            "early" | "gftr" => Some(Materialization::Gftr),
            _ => {
                return config_err!(
                    "bowtie.materialization cannot be '{value}': use auto, late or early"
                );
            }
        }))
    }
}

impl fmt::Display for MaterializationChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(materialization) => materialization.fmt(f),
        }
    }
}

/// `bowtie.set_strategy`: a technique of set joins, or automatic.
///
/// In \[B\] (Bellas, *Advanced Joins on GPUs*) `prefix` is PPJoin, `inverted_index` sf-gSSJoin, `signature` the bitmap
/// filter, `bitmap` BI (the naive one), `matrix` MM, `mmjoin` MMJoin and `intersect` IP-OBS; `rarest` is none of its techniques. A
/// technique that does not support a predicate or its sets is replaced by the nearest one. The metrics `indexed_…` of
/// `EXPLAIN ANALYZE` show which technique ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetStrategy(pub(crate) Option<SetTechnique>);

impl SetStrategy {
    /// Chosen by what there is to do.
    pub const AUTO: Self = Self(None);
    /// An inverted index on prefixes.
    pub const PREFIX: Self = Self(Some(SetTechnique::Prefix));
    /// An inverted index on all elements, with counts.
    pub const INVERTED_INDEX: Self = Self(Some(SetTechnique::InvertedIndex));
    /// Hashed signatures reject pairs.
    pub const SIGNATURE: Self = Self(Some(SetTechnique::Signature));
    /// A bit for each element.
    pub const BITMAP: Self = Self(Some(SetTechnique::Bitmap));
    /// A product of binary matrices.
    pub const MATRIX: Self = Self(Some(SetTechnique::Matrix));
    /// A product for frequent elements, the sets themselves for rare ones.
    pub const MMJOIN: Self = Self(Some(SetTechnique::MmJoin));
    /// Candidates by the rarest element.
    pub const RAREST: Self = Self(Some(SetTechnique::Rarest));
    /// Pair by pair.
    pub const INTERSECT: Self = Self(Some(SetTechnique::Intersect));
}

impl FromStr for SetStrategy {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        let name = value.trim().to_ascii_lowercase();
        let known = SetTechnique::ALL
            .into_iter()
            .find(|technique| technique.name() == name);
        match known {
            None if name != "auto" => config_err!(
                "bowtie.set_strategy cannot be '{value}': use auto, prefix, inverted_index, signature, bitmap, matrix, mmjoin, rarest or intersect"
            ),
            technique => Ok(Self(technique)),
        }
    }
}

impl fmt::Display for SetStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.map_or("auto", SetTechnique::name))
    }
}

/// `bowtie.group_strategy`: a strategy, or automatic.
///
/// In \[W\] (Wu, Koutsoukos and Alonso, 2025), `hash_shared` is HGB where keys are numbered by hashing, `sort` is SGB
/// (with GFTR for dense keys of up to 2^16 groups, with GFUR otherwise), and `sort_dict` is SGB-DE. `partition` is PGB for keys of one word. `hash_global` is
/// another algorithm; `runs` is the segmented reduction of \[D\]. A strategy that a device does not have, or that does not suit the groups, is
/// replaced by the nearest one. `EXPLAIN ANALYZE` counts the chunks by the strategy that grouped them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupStrategy(pub(crate) Option<GroupAlgorithm>);

impl GroupStrategy {
    /// Chosen by what there is to do.
    pub const AUTO: Self = Self(None);
    /// Accumulators in the shared memory of thread blocks.
    pub const HASH_SHARED: Self = Self(Some(GroupAlgorithm::HashShared));
    /// Accumulators in global memory.
    pub const HASH_GLOBAL: Self = Self(Some(GroupAlgorithm::HashGlobal));
    /// Keys and values partitioned first.
    pub const PARTITION: Self = Self(Some(GroupAlgorithm::Partition));
    /// Rows in the order of their keys.
    pub const SORT: Self = Self(Some(GroupAlgorithm::Sort));
    /// Rows in the order of numbers that hashing gave the keys.
    pub const SORT_DICT: Self = Self(Some(GroupAlgorithm::SortDictionary));
    /// Each run of equal keys is a group, where rows are in an order of their keys already.
    pub const RUNS: Self = Self(Some(GroupAlgorithm::Runs));
}

impl FromStr for GroupStrategy {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        let name = value.trim().to_ascii_lowercase();
        let known = GroupAlgorithm::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name);
        match known {
            None if name != "auto" => config_err!(
                "bowtie.group_strategy cannot be '{value}': use auto, hash_shared, hash_global, partition, sort, sort_dict or runs"
            ),
            strategy => Ok(Self(strategy)),
        }
    }
}

impl fmt::Display for GroupStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.map_or("auto", GroupAlgorithm::name))
    }
}
