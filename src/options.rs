//! Every `bowtie.*` option: its values, its default, and what it does. `SET bowtie.<option> = …` refuses a wrong value
//! and names the allowed ones.

use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{ConfigExtension, ConfigField, ConfigOptions, Visit};
use datafusion::common::{config_err, extensions_options};
use datafusion::error::{DataFusionError, Result};

use crate::ir::set_predicate::SetTechnique;
use crate::ir::strategies::{EquiStrategy, Materialization, Strategy};

extensions_options! {
    /// Options of datafusion-bowtie.
    pub struct BowtieOptions {
        /// Which operators bowtie replaces. off: none; auto: joins for which DataFusion has no good algorithm, with the aggregates above them, and on a GPU equi-joins and aggregations whose estimated gain exceeds their transfers; force: every operator that it supports.
        pub offload: Offload, default = Offload::Auto
        /// Where replaced operators run. auto: the first usable GPU, or the CPU; host: the CPU backend, on all cores; cuda or cuda:N: an NVIDIA GPU.
        pub device: DeviceChoice, default = DeviceChoice::Auto
        /// Most device memory that the session's queries reserve, such as 512MB or 8GB; auto: nine tenths of what a GPU has free, half of the machine's memory on the CPU backend. All sessions of a process together are bounded by the device's memory.
        pub device_memory: Bytes, default = Bytes(None)
        /// Columns of tables that stay on the device between queries. off: none; auto: as many as fit three quarters of a GPU's memory, none on the CPU backend; a size such as 8GB: at most as many. Queries that need memory evict those that were used longest ago.
        pub cache: CacheSize, default = CacheSize::Auto
        /// Columns of tables that stay in host memory, in the form in which the device stores them, where it has no room. off: none; auto: as many as fit a quarter of the machine's memory, none on the CPU backend or where DataFusion's memory pool is bounded; a size such as 32GB: at most as many, reserved in the memory pool, of a bounded one a quarter at most.
        pub host_cache: CacheSize, default = CacheSize::Auto
        /// Most rows of a chunk; auto: as many as fit the device's memory.
        pub chunk_rows: ChunkRows, default = ChunkRows(None)
        /// Algorithm of theta joins. auto: chosen by the condition; range: a range of one sorted column; dominance: a range of one sorted column, and tests of the other comparisons by zone maps; tiles: all pairs are tested.
        pub theta_strategy: ThetaStrategy, default = ThetaStrategy(None)
        /// Algorithm of equi-joins without inequalities. auto: chosen by the device for the keys; direct: the key is an array index, or a bit where only existence matters; hash: one hash table (NPHJ); partitioned_hash: a hash table for each partition of unique build keys, sorted partitions for duplicate keys (PHJ); sort_merge: both sides sorted (SMJ).
        pub join_strategy: JoinStrategy, default = JoinStrategy(None)
        /// Materialisation of an equi-join's output columns. auto: chosen by the device; gfur: gathered by row ids after the join; gftr: carried through the join, as far as their types allow.
        pub materialization: MaterializationChoice, default = MaterializationChoice(None)
        /// Technique of set joins. auto: chosen by the device for the sets; prefix: an inverted index on prefixes; inverted_index: an inverted index on all elements, with counts; signature: hashed signatures reject pairs; bitmap: a bit for each element; matrix: a product of binary matrices; rarest: candidates by the rarest element; intersect: pair by pair.
        pub set_strategy: SetStrategy, default = SetStrategy(None)
        /// GROUP BY algorithm. auto: chosen by the range of the keys and a sample of them; hash_shared: accumulators in each thread block's shared memory; hash_global: accumulators in global memory; partition: keys and values partitioned first; sort: rows in the order of their keys; sort_dict: rows in the order of numbers that hashing gave the keys.
        pub group_strategy: GroupStrategy, default = GroupStrategy(None)
    }
}

impl ConfigExtension for BowtieOptions {
    const PREFIX: &'static str = "bowtie";
}

impl BowtieOptions {
    /// The options of a session, or the defaults if the session was created without them.
    pub(crate) fn of(config: &ConfigOptions) -> Self {
        config
            .extensions
            .get::<BowtieOptions>()
            .cloned()
            .unwrap_or_default()
    }
}

/// Implements `SET` and display for the type of an option, by its `FromStr` and `Display`.
macro_rules! option_field {
    ($type:ty) => {
        impl ConfigField for $type {
            fn visit<V: Visit>(&self, v: &mut V, key: &str, description: &'static str) {
                // DataFusion lists an extension's options by this key; with the prefix, SHOW finds them.
                v.some(
                    &format!("{}.{key}", BowtieOptions::PREFIX),
                    self,
                    description,
                )
            }

            fn set(&mut self, _: &str, value: &str) -> Result<()> {
                *self = value.parse()?;
                Ok(())
            }
        }
    };
}

/// `bowtie.offload`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Replaces no operator.
    Off,
    /// Replaces operators that gain from it.
    Auto,
    /// Replaces every operator that is supported.
    Force,
}

impl FromStr for Offload {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        match value.trim().to_ascii_lowercase().as_str() {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "force" => Ok(Self::Force),
            _ => config_err!("bowtie.offload cannot be '{value}': use off, auto or force"),
        }
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Force => "force",
        })
    }
}

option_field!(Offload);

/// `bowtie.device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceChoice {
    /// The first usable GPU, or the CPU backend.
    Auto,
    /// The CPU backend, on the host's own cores: `host`, or `cpu`.
    Host,
    /// An NVIDIA GPU, by its ordinal.
    Cuda(u32),
}

impl FromStr for DeviceChoice {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        let lower = value.trim().to_ascii_lowercase();
        match lower.as_str() {
            "auto" => return Ok(Self::Auto),
            "host" | "cpu" => return Ok(Self::Host),
            "cuda" => return Ok(Self::Cuda(0)),
            _ => {}
        }
        match lower.strip_prefix("cuda:").map(str::parse) {
            Some(Ok(ordinal)) => Ok(Self::Cuda(ordinal)),
            _ => config_err!(
                "bowtie.device cannot be '{value}': use auto, host, cuda, or cuda:N with the GPU's number"
            ),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Host => f.write_str("host"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

option_field!(DeviceChoice);

/// `bowtie.chunk_rows`: a number of rows, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRows(pub Option<usize>);

impl FromStr for ChunkRows {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        let text = value.trim();
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self(None));
        }
        match text.parse::<usize>() {
            Ok(rows) if (1..=crate::ir::limits::MAX_CHUNK_ROWS).contains(&rows) => {
                Ok(Self(Some(rows)))
            }
            _ => config_err!(
                "bowtie.chunk_rows cannot be '{value}': use auto, or a number of rows from 1 to {}",
                crate::ir::limits::MAX_CHUNK_ROWS
            ),
        }
    }
}

impl fmt::Display for ChunkRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(rows) => write!(f, "{rows}"),
        }
    }
}

option_field!(ChunkRows);

/// `bowtie.theta_strategy`: a strategy, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThetaStrategy(pub(crate) Option<Strategy>);

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

option_field!(ThetaStrategy);

/// `bowtie.join_strategy`: a strategy of equi-joins, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinStrategy(pub(crate) Option<EquiStrategy>);

impl FromStr for JoinStrategy {
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
                    "bowtie.join_strategy cannot be '{value}': use auto, direct, hash, partitioned_hash or sort_merge"
                );
            }
        }))
    }
}

impl fmt::Display for JoinStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("auto"),
            Some(strategy) => strategy.fmt(f),
        }
    }
}

option_field!(JoinStrategy);

/// `bowtie.materialization`: a materialisation, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaterializationChoice(pub(crate) Option<Materialization>);

impl FromStr for MaterializationChoice {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        Ok(Self(match value.trim().to_ascii_lowercase().as_str() {
            "auto" => None,
            "gfur" => Some(Materialization::Gfur),
            "gftr" => Some(Materialization::Gftr),
            _ => {
                return config_err!(
                    "bowtie.materialization cannot be '{value}': use auto, gfur or gftr"
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

option_field!(MaterializationChoice);

/// `bowtie.set_strategy`: a technique of set joins, or automatic.
///
/// In \[B\] (Bellas, *Advanced Joins on GPUs*) `prefix` is PPJoin, `inverted_index` sf-gSSJoin, `signature` the bitmap
/// filter, `bitmap` BI (the naive one), `matrix` MM and `intersect` IP-OBS; `rarest` is none of its techniques. A
/// technique that does not support a predicate or its sets is replaced by the nearest one. The metrics `indexed_…` of
/// `EXPLAIN ANALYZE` show which technique ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetStrategy(pub(crate) Option<SetTechnique>);

impl FromStr for SetStrategy {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        let name = value.trim().to_ascii_lowercase();
        let known = SetTechnique::ALL
            .into_iter()
            .find(|technique| technique.name() == name);
        match known {
            None if name != "auto" => config_err!(
                "bowtie.set_strategy cannot be '{value}': use auto, prefix, inverted_index, signature, bitmap, matrix, rarest or intersect"
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

option_field!(SetStrategy);

/// `bowtie.group_strategy`: a strategy, or automatic.
///
/// In \[W\] (Wu, Koutsoukos and Alonso, 2025), `hash_shared` is HGB where keys are numbered by hashing, `sort` is SGB
/// (with GFTR for dense keys of up to 2^16 groups, with GFUR otherwise), and `sort_dict` is SGB-DE. `hash_global` and
/// `partition` are other algorithms. A strategy that a device does not have, or that does not suit the groups, is
/// replaced by the nearest one. `EXPLAIN ANALYZE` counts the chunks by the strategy that grouped them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupStrategy(pub(crate) Option<crate::ir::strategies::GroupStrategy>);

impl FromStr for GroupStrategy {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        let name = value.trim().to_ascii_lowercase();
        let known = crate::ir::strategies::GroupStrategy::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name);
        match known {
            None if name != "auto" => config_err!(
                "bowtie.group_strategy cannot be '{value}': use auto, hash_shared, hash_global, partition, sort or sort_dict"
            ),
            strategy => Ok(Self(strategy)),
        }
    }
}

impl fmt::Display for GroupStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.0
                .map_or("auto", crate::ir::strategies::GroupStrategy::name),
        )
    }
}

option_field!(GroupStrategy);

mod sizes;

pub use sizes::{Bytes, CacheSize};

option_field!(Bytes);
option_field!(CacheSize);

#[cfg(test)]
mod tests;
