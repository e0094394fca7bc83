//! Chooses an equi-join's strategy and its materialization on a GPU, from the build side's size, its keys and a sample.
//!
//! By measurement, where \[W\] 5.1.10 has a summary in words. With two columns a side and twice as many probe rows, in
//! ms on an H200:
//!
//! | build rows | direct (of it: the pass for the least and greatest key) | hash | partitioned hash, GFTR |
//! |---|---|---|---|
//! | 2^20 | 0.47 (0.24) | 0.23 | 0.28 |
//! | 2^21 | 0.54 | 0.36 | 0.39 |
//! | 2^22 | 0.88 | 0.82 | 0.60 |
//! | 2^23 | 1.67 | 1.97 | 0.97 |
//! | 2^27 | 32 | 36 | 13.5 |
//!
//! So direct address is chosen only for group ids, whose least and greatest value are known without a pass.
//!
//! For a partitioned join a sample of the keys (`sample.rs`) also chooses the materialization. Columns are carried
//! through the partition passes (GFTR), or the columns of few matches are gathered at random in the end (GFUR). If the
//! sample shows duplicate build keys, for which a table is useless, the strategy is sort-merge.

use crate::device::cuda::equi::key_words::Addresses;
use crate::device::cuda::equi::sample::Sampled;
use crate::device::cuda::keys::key_width::Width;
use crate::device::machine_rates::MemoryRates;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// The build side of an equi-join, as far as the choice of a strategy depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    /// Build rows, with NULL keys.
    pub rows: usize,
    /// Width of a key word.
    pub width: Width,
    /// Whether keys are group ids ([`KeyEncoding::Groups`](crate::device::cuda::equi::key_words::KeyEncoding)).
    pub numbered: bool,
    /// Size of the GPU's L2 cache in bytes.
    pub cache_bytes: u64,
    /// Bytes that the array of a direct table may take.
    pub table_bytes: u64,
}

/// Addresses per build row, at most, for keys to count as dense.
const DENSE: u64 = 4;

/// Addresses of a direct table, at most, if the option asks for direct address. Keys of a wider range are replaced by
/// their group ids.
const MOST_ADDRESSES: u64 = 1 << 28;

impl Build {
    /// Whether the strategy depends on the least and the greatest build key.
    pub(crate) fn may_be_direct(&self, wanted: Option<EquiStrategy>) -> bool {
        match wanted {
            Some(strategy) => strategy == EquiStrategy::Direct,
            None => self.numbered && self.fits_cache(self.rows as u64 * 4),
        }
    }

    /// Whether `bytes` fit three fifths of the L2 cache; the rest is for the columns that stream through it.
    fn fits_cache(&self, bytes: u64) -> bool {
        bytes <= self.cache_bytes / 5 * 3
    }

    /// Whether a direct table of these addresses, of 4 bytes each, is within its limits.
    pub(crate) fn allows(&self, addresses: Addresses) -> bool {
        addresses.count <= MOST_ADDRESSES.max(DENSE * self.rows as u64).min(1 << 31)
            && 4 * addresses.count <= self.table_bytes
    }
}

/// The strategy for a build side: `wanted` if there is one. `addresses` is the range of the build keys, `None` if it is
/// unknown.
pub(crate) fn choose(
    build: &Build,
    addresses: Option<Addresses>,
    wanted: Option<EquiStrategy>,
) -> EquiStrategy {
    if let Some(strategy) = wanted {
        return strategy;
    }
    let rows = build.rows as u64;
    // A slot holds a whole key of 4 bytes. Keys of 8 bytes are read from the key column for each comparison.
    let of_keys = match build.width {
        Width::Four => 0,
        Width::Eight => 8 * rows,
    };
    match addresses {
        Some(of)
            if of.count <= DENSE * rows.max(1 << 10)
                && build.allows(of)
                && build.fits_cache(4 * of.count) =>
        {
            EquiStrategy::Direct
        }
        // Two slots of 8 bytes per row.
        _ if build.fits_cache((2 * rows).next_power_of_two() * 8 + of_keys) => EquiStrategy::Hash,
        _ => EquiStrategy::PartitionedHash,
    }
}

/// The share of sampled build rows with the key of an earlier sampled row above which build keys count as duplicate.
/// With two rows per key, and one tile in 16 read (the fewest), one sampled row in 16 has its other row in the sample.
/// Half of these rows come second: a share of 0.03. Far fewer rows share a bit by chance.
const SHARED: f64 = 0.02;

/// Whether the sample shows duplicate build keys.
pub(crate) fn has_duplicates(of: Sampled) -> bool {
    of.again > SHARED
}

/// The size of the columns that a join carries for one side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload {
    pub rows: usize,
    /// Bytes of the carried values per row.
    pub bytes: usize,
    /// Number of carried columns.
    pub columns: usize,
    /// Whether row ids are carried too, for columns that cannot be carried.
    pub with_rows: bool,
}

/// Costs relative to the GPU's memory rates: of the two partition passes per byte of a row, in copies of a byte; and of
/// the value of a match, in values gathered at random.
///
/// Measured on an H200 with 2^25 ⋈ 2^26 rows and 0 to 8 columns of 4 bytes a side. Both take 1.8 ms without columns.
/// GFTR takes 0.7 ms more for each column a side if few rows match: 1.75 ps for each byte of a row. GFUR takes 0.7 ms
/// more for the row ids, and 2.5 ms for each column a side if all probe rows match: 19 ps for each value (sweep
/// `columns` of `docs/benchmarks/cuda/equi-device.csv`). `rates/memory_rates.rs` measures 0.51 ps for a copied byte and 23.7
/// ps for a gathered value on it.
const PASSES: f64 = 3.43;
const GATHERS: f64 = 0.8;

/// The materialization with the lower cost, if the share `matches` of the probe rows has a match. GFTR costs the bytes
/// that it moves beyond row ids, GFUR the values that it gathers.
pub(crate) fn materialization(
    build: Payload,
    probe: Payload,
    matches: f64,
    rates: MemoryRates,
) -> Materialization {
    let moved = |side: Payload| {
        let ids = if side.with_rows || side.columns == 0 {
            0.0
        } else {
            4.0
        };
        side.rows as f64 * (side.bytes as f64 - ids)
    };
    let gathered = matches * probe.rows as f64 * (build.columns + probe.columns) as f64;
    let (passes_ps, gather_ps) = (PASSES * rates.copied_byte, GATHERS * rates.gathered_value);
    match passes_ps * (moved(build) + moved(probe)) > gather_ps * gathered {
        true => Materialization::Gfur,
        false => Materialization::Gftr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_are_gathered() {
        use crate::ir::strategies::Materialization::*;
        let payload = |rows, columns| Payload {
            rows,
            bytes: 4 * columns,
            columns,
            with_rows: false,
        };
        let chosen = |columns, matches| {
            let (build, probe) = (payload(1 << 25, columns), payload(1 << 26, columns));
            materialization(build, probe, matches, MemoryRates::REFERENCE)
        };
        assert_eq!(chosen(2, 0.03), Gfur);
        assert_eq!(chosen(2, 0.25), Gftr);
        assert_eq!(chosen(8, 0.1), Gfur);
        // Row ids are as wide as the one column, or there are no columns.
        assert_eq!(chosen(1, 0.03), Gftr);
        assert_eq!(chosen(0, 0.03), Gftr);
        // A GPU that gathers as fast as it copies.
        let (build, probe) = (payload(1 << 25, 2), payload(1 << 26, 2));
        let flat = MemoryRates {
            gathered_value: 1.0,
            ..MemoryRates::REFERENCE
        };
        assert_eq!(materialization(build, probe, 1.0, flat), Gfur);
        let again = |again| Sampled {
            matches: None,
            again,
        };
        assert!(has_duplicates(again(0.03)) && !has_duplicates(again(0.01)));
    }

    fn chosen(rows: usize, width: Width, count: Option<u64>) -> EquiStrategy {
        let build = Build {
            rows,
            width,
            numbered: count.is_some(),
            cache_bytes: 60 << 20,
            table_bytes: 1 << 30,
        };
        let addresses = count.map(|count| Addresses { least: 7, count });
        choose(&build, addresses, None)
    }

    #[test]
    fn tables_lie_in_the_cache_or_in_partitions() {
        use crate::ir::strategies::EquiStrategy::*;
        assert_eq!(chosen(1_000, Width::Four, Some(1_200)), Direct);
        assert_eq!(chosen(1_000, Width::Eight, Some(1 << 40)), Hash);
        assert_eq!(chosen(1_000_000, Width::Four, Some(3_000_000)), Direct);
        assert_eq!(chosen(1_000_000, Width::Four, None), Hash);
        assert_eq!(chosen(1_000_000, Width::Eight, None), Hash);
        assert_eq!(chosen(1 << 21, Width::Four, None), Hash);
        assert_eq!(chosen(4_000_000, Width::Four, None), PartitionedHash);
        assert_eq!(chosen(1 << 27, Width::Four, Some(1 << 27)), PartitionedHash);
    }
}
