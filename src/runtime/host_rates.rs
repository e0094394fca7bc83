//! Measures a core of the host: enters nothing, leaves [`HostRates`]. It takes some 8 ms.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::device::machine_rates::HostRates;

/// The words of the table: 8 MiB, more than a core's own caches.
const LOG_WORDS: u32 = 20;
/// Keys of a run: so few that most runs are not interrupted.
const KEYS: u64 = 1 << 11;
/// Bytes of a run of copies.
const COPIED: usize = 1 << 20;
const RUNS: usize = 24;

/// Runs at least, and the time after which no other one begins.
const LEAST_RUNS: usize = 8;
const MOST: Duration = Duration::from_millis(4);

/// The least of several runs each: other work may run on the core.
pub(crate) fn measured() -> HostRates {
    let mut table: Vec<u64> = (0..1u64 << LOG_WORDS).map(mixed).collect();
    let begun = Instant::now();
    let [mut probed, mut copied] = [f64::INFINITY; 2];
    for run in 0..RUNS {
        let keys = KEYS * run as u64..KEYS * (run as u64 + 1);
        probed = probed.min(timed(|| black_box(found(&table, keys))));
        // Of a table that was just filled: new memory would take longer.
        let (target, parts) = black_box(&mut table).split_at_mut(COPIED / 8);
        let part = run % (parts.len() / target.len()) * target.len();
        let part = &parts[part..part + target.len()];
        copied = copied.min(timed(|| target.copy_from_slice(part)));
        if run + 1 >= LEAST_RUNS && begun.elapsed() > MOST {
            break;
        }
    }
    const PS: f64 = 1e12;
    let rates = HostRates {
        probed_key: probed * PS / KEYS as f64,
        copied_byte: copied * PS / COPIED as f64,
    };
    log::debug!("a core of the host: {rates:?}, {:?}", begun.elapsed());
    rates
}

/// The sum of what the keys find: a slot by its hash, and the next one of its chain for every other key, as hash joins do.
fn found(table: &[u64], keys: std::ops::Range<u64>) -> u64 {
    let slot = |hash: u64| (hash >> (64 - LOG_WORDS)) as usize;
    keys.fold(0u64, |sum, key| {
        let first = table[slot(mixed(key))];
        let last = match first & 1 {
            0 => first,
            _ => table[slot(first)],
        };
        sum.wrapping_add(last)
    })
}

/// A hash, as DataFusion's operators have one for each value of a key.
fn mixed(key: u64) -> u64 {
    let mut mixed = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Seconds.
fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}
