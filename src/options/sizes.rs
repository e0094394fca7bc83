//! The options that are numbers: of device memory, of what stays there, of the rows of a chunk, of a speed-up.

use std::fmt;
use std::str::FromStr;

use datafusion::common::config_err;
use datafusion::error::{DataFusionError, Result};

/// `bowtie.device_memory`: a number of bytes, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub(crate) Option<u64>);

impl Bytes {
    /// A share of the device's memory.
    pub const AUTO: Self = Self(None);

    /// At most `bytes` bytes.
    ///
    /// # Errors
    /// If they are too few to work with.
    pub fn at_most(bytes: u64) -> Result<Self> {
        bytes.to_string().parse()
    }

    /// With less memory no chunk of a useful size fits.
    const LEAST: u64 = 1 << 20;

    /// Sums of a few such sizes do not overflow.
    const MOST: u64 = 1 << 60;
}

impl FromStr for Bytes {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        if value.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self(None));
        }
        match size(value) {
            Some(bytes) => Ok(Self(Some(bytes))),
            None => config_err!(
                "bowtie.device_memory cannot be '{value}': use auto, or a size from 1MB to 1048576TB such as 512MB, 8GB or 1.5GiB"
            ),
        }
    }
}

/// The bytes of a size from [`Bytes::LEAST`] to [`Bytes::MOST`] with a unit, which is a power of 1024, as in DataFusion's own memory limits.
fn size(value: &str) -> Option<u64> {
    let text = value.trim().to_ascii_uppercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    let is_size = bytes.is_finite() && (Bytes::LEAST as f64..=Bytes::MOST as f64).contains(&bytes);
    is_size.then_some(bytes as u64)
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.0 else {
            return f.write_str("auto");
        };
        for (unit, shift) in [("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10)] {
            if bytes % (1 << shift) == 0 {
                return write!(f, "{}{unit}", bytes >> shift);
            }
        }
        write!(f, "{bytes}")
    }
}

/// `bowtie.cache` and `bowtie.host_cache`: the columns of tables that stay on a device, or for it in host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSize {
    /// No columns.
    Off,
    /// As many as fit a share of a GPU's memory, or of the host's; none on the CPU backend.
    Auto,
    /// As many as have this number of bytes together.
    Bytes(u64),
}

impl CacheSize {
    /// The most bytes of stored columns on a device on which a session may reserve `device_memory` bytes.
    pub(crate) fn bytes(self, is_gpu: bool, device_memory: u64) -> u64 {
        match self {
            Self::Auto if is_gpu => device_memory / 4 * 3,
            Self::Auto | Self::Off => 0,
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl CacheSize {
    /// The value of the option `bowtie.{name}`.
    ///
    /// # Errors
    /// If it cannot have the value.
    pub(super) fn of_option(name: &str, value: &str) -> Result<Self> {
        match value.trim().to_ascii_lowercase().as_str() {
            "off" => return Ok(Self::Off),
            "auto" => return Ok(Self::Auto),
            _ => {}
        }
        match size(value) {
            Some(bytes) => Ok(Self::Bytes(bytes)),
            None => config_err!(
                "bowtie.{name} cannot be '{value}': use off, auto, or a size from 1MB to 1048576TB such as 512MB, 8GB or 1.5GiB"
            ),
        }
    }
}

impl FromStr for CacheSize {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        Self::of_option("cache", value)
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::Bytes(bytes) => Bytes(Some(*bytes)).fmt(f),
        }
    }
}

/// `bowtie.chunk_rows`: a number of rows, or automatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRows(pub(crate) Option<usize>);

impl ChunkRows {
    /// As many as fit the device's memory.
    pub const AUTO: Self = Self(None);

    /// At most `rows` rows.
    ///
    /// # Errors
    /// If it is no number of rows that a chunk can have.
    pub fn at_most(rows: usize) -> Result<Self> {
        rows.to_string().parse()
    }
}

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

/// `bowtie.broadcast_rows`: a number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BroadcastRows(pub(crate) u64);

impl BroadcastRows {
    /// The number of rows.
    pub fn get(self) -> u64 {
        self.0
    }

    /// What is sent to all workers in a fraction of a second.
    pub const DEFAULT: Self = Self(4_000_000);

    /// At most `rows` rows are sent to all workers.
    pub fn at_most(rows: u64) -> Self {
        Self(rows)
    }
}

impl FromStr for BroadcastRows {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        match value.trim().parse() {
            Ok(rows) => Ok(Self(rows)),
            Err(_) => config_err!(
                "bowtie.broadcast_rows cannot be '{value}': use a number of rows from 0"
            ),
        }
    }
}

impl fmt::Display for BroadcastRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// `bowtie.min_speedup`: how many times sooner than DataFusion an operator must be estimated to run on a GPU for `auto`
/// to replace it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MinSpeedup(f64);

impl MinSpeedup {
    /// Estimates are no better than this.
    pub const DEFAULT: Self = Self(1.25);

    /// An operator must be estimated to be `factor` times as fast.
    ///
    /// # Errors
    /// If it is not from 1 to 100.
    pub fn times(factor: f64) -> Result<Self> {
        factor.to_string().parse()
    }

    pub(crate) fn factor(self) -> f64 {
        self.0
    }
}

impl FromStr for MinSpeedup {
    type Err = DataFusionError;

    fn from_str(value: &str) -> Result<Self> {
        match value.trim().parse::<f64>() {
            Ok(factor) if (1.0..=100.0).contains(&factor) => Ok(Self(factor)),
            _ => config_err!(
                "bowtie.min_speedup cannot be '{value}': use a number from 1 to 100 such as 1.25"
            ),
        }
    }
}

impl fmt::Display for MinSpeedup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
