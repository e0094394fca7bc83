//! Every `bowtie.*` option: its values, its default, and what it does. `SET bowtie.<option> = …` refuses a wrong value
//! and names the allowed ones.

use std::fmt;
use std::str::FromStr;

use datafusion::common::config::{
    ConfigEntry, ConfigExtension, ConfigField, ConfigOptions, ExtensionOptions, Visit,
};
use datafusion::common::config_err;
use datafusion::error::{DataFusionError, Result};

/// Declares the options: for each a field, its default, a builder, and what `SET` and `SHOW` do with it.
macro_rules! options {
    ($(
        $(#[doc = $doc:tt])*
        $name:ident / $with:ident: $type:ty = $default:expr
    ),* $(,)?) => {
        /// Options of datafusion-bowtie.
        ///
        /// ```
        /// use datafusion::prelude::SessionConfig;
        /// use datafusion_bowtie::{BowtieConfigExt, BowtieOptions, Bytes, DeviceChoice, Offload};
        /// # fn main() -> datafusion::error::Result<()> {
        /// let options = BowtieOptions::default()
        ///     .with_offload(Offload::Force)
        ///     .with_device(DeviceChoice::Host)
        ///     .with_device_memory(Bytes::at_most(512 << 20)?);
        /// let config = SessionConfig::new().with_bowtie_options(options);
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct BowtieOptions {
            $($(#[doc = $doc])* pub $name: $type,)*
        }

        impl Default for BowtieOptions {
            fn default() -> Self {
                Self { $($name: $default),* }
            }
        }

        impl BowtieOptions {
            $(
                #[doc = concat!("The same options with another value of `bowtie.", stringify!($name), "`.")]
                #[must_use]
                pub fn $with(self, $name: $type) -> Self {
                    Self { $name, ..self }
                }
            )*

            /// The names of all options, without `bowtie.`.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];
        }

        impl ConfigField for BowtieOptions {
            fn set(&mut self, key: &str, value: &str) -> Result<()> {
                match current_name(key) {
                    $(stringify!($name) => self.$name.take(stringify!($name), value),)*
                    _ => unknown(key),
                }
            }

            fn reset(&mut self, key: &str) -> Result<()> {
                match current_name(key) {
                    $(stringify!($name) => self.$name = $default,)*
                    _ => return unknown(key),
                }
                Ok(())
            }

            fn visit<V: Visit>(&self, v: &mut V, _: &str, _: &'static str) {
                $(v.some(stringify!($name), &self.$name, concat!($($doc),*).trim());)*
            }
        }
    };
}

options! {
    /// Which operators bowtie replaces. off: none; auto: joins for which DataFusion has no good algorithm, with the aggregates above them, and on a GPU equi-joins and aggregations whose estimated gain exceeds their transfers; force: every operator that it supports.
    offload / with_offload: Offload = Offload::Auto,
    /// Where replaced operators run. auto: the first usable GPU, or the CPU; host: the CPU backend, on all cores; cuda or cuda:N: an NVIDIA GPU.
    device / with_device: DeviceChoice = DeviceChoice::Auto,
    /// Whether a query fails, instead of running another way, if a join, an aggregation, or a sort or clusters of rows on the device are not supported, if an expression runs in DataFusion between two offloaded operators, if a strategy that an option asks for does not suit, or if the GPU does not open. What auto leaves to DataFusion because nothing is gained does not fail. true or false.
    strict / with_strict: bool = false,
    /// How many times sooner than DataFusion an operator must be estimated to run on a GPU for auto to replace it, from 1 to 100.
    min_speedup / with_min_speedup: MinSpeedup = MinSpeedup::DEFAULT,
    /// Most device memory that the session's queries reserve, such as 512MB or 8GB; auto: nine tenths of what a GPU has free, half of the machine's memory on the CPU backend. All sessions of a process together are bounded by the device's memory.
    device_memory / with_device_memory: Bytes = Bytes::AUTO,
    /// Columns of tables that stay on the device between queries. off: none; auto: as many as fit three quarters of a GPU's memory, none on the CPU backend; a size such as 8GB: at most as many. Queries that need memory evict those that were used longest ago.
    cache / with_cache: CacheSize = CacheSize::Auto,
    /// Columns of tables that stay in host memory, in the form in which the device stores them, where it has no room. off: none; auto: as many as fit a quarter of the machine's memory, none on the CPU backend or where DataFusion's memory pool is bounded; a size such as 32GB: at most as many, reserved in the memory pool, of a bounded one a quarter at most.
    host_cache / with_host_cache: CacheSize = CacheSize::Auto,
    /// Most rows of a chunk; auto: as many as fit the device's memory. Small values are for tests: the time of a join grows with the product of its sides' chunks.
    chunk_rows / with_chunk_rows: ChunkRows = ChunkRows::AUTO,
    /// Algorithm of theta joins. auto: chosen by the condition; range: a range of one sorted column; dominance: a range of one sorted column, and tests of the other comparisons by zone maps, or, where intervals overlap, two range joins; tiles: all pairs are tested.
    theta_strategy / with_theta_strategy: ThetaStrategy = ThetaStrategy::AUTO,
    /// Algorithm of equi-joins without inequalities. auto: chosen by the device for the keys; direct: the key is an array index, or a bit where only existence matters; hash: one hash table (NPHJ); partitioned_hash: a hash table for each partition of unique build keys, sorted partitions for duplicate keys (PHJ); sort_merge: both sides sorted (SMJ).
    equi_join_strategy / with_equi_join_strategy: EquiJoinStrategy = EquiJoinStrategy::AUTO,
    /// Materialisation of an equi-join's output columns, and of the columns of a GROUP BY that partitions or sorts rows. auto: chosen by the device; late: gathered by row ids at the end (GFUR); early: carried with the keys, as far as their types allow (GFTR).
    materialization / with_materialization: MaterializationChoice = MaterializationChoice::AUTO,
    /// Technique of set joins. auto: chosen by the device for the sets; prefix: an inverted index on prefixes; inverted_index: an inverted index on all elements, with counts; signature: hashed signatures reject pairs; bitmap: a bit for each element; matrix: a product of binary matrices; rarest: candidates by the rarest element; intersect: pair by pair.
    set_strategy / with_set_strategy: SetStrategy = SetStrategy::AUTO,
    /// GROUP BY algorithm. auto: chosen by the range of the keys and a sample of them; hash_shared: accumulators in each thread block's shared memory; hash_global: accumulators in global memory; partition: keys and values partitioned first; sort: rows in the order of their keys; sort_dict: rows in the order of numbers that hashing gave the keys; runs: rows that are in an order of their keys already, each run of equal keys a group.
    group_strategy / with_group_strategy: GroupStrategy = GroupStrategy::AUTO,
    /// Rows of the shorter side of a join up to which a coordinator has that side sent to all workers: of range joins, whose longer sides are exchanged by ranges of their values, and, if all workers have a GPU, of equi-joins.
    broadcast_rows / with_broadcast_rows: BroadcastRows = BroadcastRows::DEFAULT,
}

/// Names that options had before, which `SET` and `RESET` still take, and those of today.
const FORMER_NAMES: [(&str, &str); 1] = [("join_strategy", "equi_join_strategy")];

/// The name of today of the option that a statement calls `key`.
fn current_name(key: &str) -> &str {
    let former = FORMER_NAMES.iter().find(|(name, _)| *name == key);
    former.map_or(key, |(_, name)| name)
}

/// # Errors
/// Always: there is no option of this name.
fn unknown<T>(key: &str) -> Result<T> {
    let all: Vec<String> = BowtieOptions::NAMES
        .iter()
        .map(|name| format!("{}.{name}", BowtieOptions::PREFIX))
        .collect();
    config_err!(
        "there is no option bowtie.{key}: use one of {}",
        all.join(", ")
    )
}

impl ExtensionOptions for BowtieOptions {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        ConfigField::set(self, key, value)
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let mut entries = Entries(vec![]);
        self.visit(&mut entries, "", "");
        entries.0
    }
}

/// Lists options with their values.
struct Entries(Vec<ConfigEntry>);

impl Entries {
    /// DataFusion lists an extension's options by this key; with the prefix, SHOW finds them.
    fn push(&mut self, key: &str, value: Option<String>, description: &'static str) {
        self.0.push(ConfigEntry {
            key: format!("{}.{key}", BowtieOptions::PREFIX),
            value,
            description,
        });
    }
}

impl Visit for Entries {
    fn some<V: fmt::Display>(&mut self, key: &str, value: V, description: &'static str) {
        self.push(key, Some(value.to_string()), description);
    }

    fn none(&mut self, key: &str, description: &'static str) {
        self.push(key, None, description);
    }
}

impl ConfigExtension for BowtieOptions {
    const PREFIX: &'static str = "bowtie";
}

impl BowtieOptions {
    /// Options by name, with or without `bowtie.`; those that are not named have their defaults.
    ///
    /// ```
    /// use datafusion_bowtie::{BowtieOptions, Offload};
    /// # fn main() -> datafusion::error::Result<()> {
    /// let options = BowtieOptions::from_map([("bowtie.offload", "force"), ("cache", "8GB")])?;
    /// assert_eq!(options.offload, Offload::Force);
    /// assert!(BowtieOptions::from_map([("ofload", "force")]).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such option, or it cannot have the value; the error names what it can be.
    pub fn from_map<K: AsRef<str>, V: AsRef<str>>(
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self> {
        let mut made = Self::default();
        for (name, value) in options {
            let name = name.as_ref();
            let name = name.strip_prefix("bowtie.").unwrap_or(name);
            ConfigField::set(&mut made, name, value.as_ref())?;
        }
        Ok(made)
    }

    /// The options that the environment sets: `BOWTIE_OFFLOAD`, `BOWTIE_DEVICE_MEMORY`, and so on; others have their defaults.
    ///
    /// # Errors
    /// If an option cannot have the value of its variable.
    pub fn from_env() -> Result<Self> {
        Self::from_map(Self::of_env())
    }

    /// The options that the environment sets, by name, those by former names first.
    fn of_env() -> impl Iterator<Item = (&'static str, String)> {
        let variable = |name: &str| format!("BOWTIE_{}", name.to_ascii_uppercase());
        let set = move |name: &'static str| Some((name, std::env::var(variable(name)).ok()?));
        let former = FORMER_NAMES.iter().map(|(name, _)| *name);
        former.chain(Self::NAMES.iter().copied()).filter_map(set)
    }

    /// The options of a session, or the defaults if the session was created without them.
    pub(crate) fn of(config: &ConfigOptions) -> Self {
        config
            .extensions
            .get::<BowtieOptions>()
            .cloned()
            .unwrap_or_default()
    }
}

/// The value of an option.
trait OptionValue {
    /// # Errors
    /// If option `name` cannot have the value; the error names those that it can have.
    fn take(&mut self, name: &str, value: &str) -> Result<()>;
}

macro_rules! option_values {
    ($($type:ty),*) => {$(
        impl OptionValue for $type {
            fn take(&mut self, _: &str, value: &str) -> Result<()> {
                *self = value.parse()?;
                Ok(())
            }
        }
    )*};
}

option_values!(
    Offload,
    DeviceChoice,
    MinSpeedup,
    Bytes,
    ChunkRows,
    BroadcastRows,
    ThetaStrategy,
    EquiJoinStrategy,
    MaterializationChoice,
    SetStrategy,
    GroupStrategy
);

/// Of two options.
impl OptionValue for CacheSize {
    fn take(&mut self, name: &str, value: &str) -> Result<()> {
        *self = Self::of_option(name, value)?;
        Ok(())
    }
}

impl OptionValue for bool {
    fn take(&mut self, name: &str, value: &str) -> Result<()> {
        *self = match value.trim().to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => return config_err!("bowtie.{name} cannot be '{value}': use true or false"),
        };
        Ok(())
    }
}

/// `bowtie.offload`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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

/// `bowtie.device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
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

mod sizes;
mod strategies;

pub use sizes::{BroadcastRows, Bytes, CacheSize, ChunkRows, MinSpeedup};
pub use strategies::{
    EquiJoinStrategy, GroupStrategy, MaterializationChoice, SetStrategy, ThetaStrategy,
};

#[cfg(test)]
mod tests;
