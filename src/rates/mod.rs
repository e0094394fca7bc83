//! Rates of the device's primitives on resident data, for the benches: the part of a query's time that is not transfer.
//! Not part of the public interface.

pub(crate) mod algebra;
pub(crate) mod border;
pub(crate) mod equi;
pub(crate) mod group;
pub(crate) mod sets;

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array};
use arrow::compute::nullif;
use rayon::prelude::*;

use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::options::DeviceChoice;
use crate::runtime::session_devices::SessionDevices;

pub use crate::rates::algebra::{AlgebraRows, Operator};
pub use crate::rates::border::{BorderRows, Transfer};
pub use crate::rates::equi::{BY_RANGES, EquiCase, EquiSides};
pub use crate::rates::group::{GroupCase, GroupRows, KeysOf};
pub use crate::rates::sets::{SetCase, SetQuery, SetSides};

/// A measurement.
#[derive(Debug, Clone)]
pub struct Rate {
    /// The median, in milliseconds.
    pub ms: f64,
    /// The number of output rows.
    pub rows: usize,
    /// The strategy that ran, where the device chose it.
    pub strategy: String,
}

/// The device that `bowtie.device` names so.
fn open(device: &str) -> datafusion::error::Result<Arc<dyn Device>> {
    let choice = device.parse::<DeviceChoice>()?;
    let devices = SessionDevices::default();
    let chosen = devices.choose(choice)?;
    Ok(devices.open(choice, chosen, None)?)
}

/// A first run of at least this number of seconds is the measurement.
const LONG_SECONDS: f64 = 3.0;

/// The median milliseconds of `runs` runs of `run`, and the result of the last one. A run before them loads kernels and
/// fills the device's memory pool. If that one is long, this share of its time is negligible, and it is the
/// measurement.
fn timed<T>(
    device: &dyn Device,
    runs: usize,
    mut run: impl FnMut() -> Result<T>,
) -> Result<(f64, T)> {
    let settle = || device.read(&device.sequence(0, 1)?);
    let begun = Instant::now();
    let mut last = run()?;
    settle()?;
    let first = begun.elapsed().as_secs_f64();
    if first >= LONG_SECONDS {
        return Ok((first * 1e3, last));
    }
    let mut times = vec![];
    for _ in 0..runs.max(1) {
        let begun = Instant::now();
        last = run()?;
        settle()?;
        times.push(begun.elapsed());
    }
    times.sort();
    Ok((times[times.len() / 2].as_secs_f64() * 1e3, last))
}

/// A pseudo-random word, a function of the number.
fn scattered(i: u64) -> u64 {
    let word = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ (word >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word ^ (word >> 29)
}

/// A pseudo-random number from 0 to below 1.
fn fraction(i: u64) -> f64 {
    (scattered(i) >> 11) as f64 / (1u64 << 53) as f64
}

/// A permutation of `0 .. rows`, a power of two.
fn permuted(i: u64, rows: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B1).wrapping_add(12_345) & (rows - 1)
}

/// Zipf's distribution over `0 .. values`, the first ones most frequent.
struct Zipf {
    values: u64,
    power: f64,
    /// The limit of the cumulative frequency.
    whole: f64,
}

impl Zipf {
    fn new(values: u64, exponent: f64) -> Self {
        let power = match 1.0 - exponent {
            power if power.abs() < 1e-9 => 0.0,
            power => power,
        };
        let n = values as f64;
        let whole = if power == 0.0 {
            n.ln()
        } else {
            n.powf(power) - 1.0
        };
        Self {
            values,
            power,
            whole,
        }
    }

    /// The value at a random cumulative frequency of a continuous approximation.
    fn at(&self, i: u64) -> u64 {
        let u = fraction(i) * self.whole;
        let rank = if self.power == 0.0 {
            u.exp()
        } else {
            (1.0 + u).powf(1.0 / self.power)
        };
        (rank as u64).clamp(1, self.values) - 1
    }
}

/// Integers of 4 or 8 bytes.
fn numbers(rows: usize, bytes: usize, of: impl Fn(u64) -> u64 + Sync) -> ArrayRef {
    let rows = (0..rows as u64).into_par_iter();
    match bytes {
        4 => Arc::new(Int32Array::from(
            rows.map(|i| of(i) as i32).collect::<Vec<_>>(),
        )),
        _ => Arc::new(Int64Array::from(
            rows.map(|i| of(i) as i64).collect::<Vec<_>>(),
        )),
    }
}

/// The values, but NULL in every `period`th row.
fn with_nulls(values: &ArrayRef, period: usize) -> Result<ArrayRef> {
    let null = (0..values.len()).map(|i| Some(i.is_multiple_of(period)));
    Ok(nullif(values, &null.collect::<BooleanArray>())?)
}
