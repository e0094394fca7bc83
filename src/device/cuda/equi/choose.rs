//! Which strategy joins equal keys soonest on a GPU.
//!
//! \[W\] section 4.1 chooses by where the table lies. With two columns a side and twice as many probe rows, in ms on an H200:
//!
//! | build rows | direct (of it: finding the least and greatest key) | hash | partitioned hash, GFTR |
//! |---|---|---|---|
//! | 2^20 | 0.47 (0.24) | 0.23 | 0.28 |
//! | 2^21 | 0.54 | 0.36 | 0.39 |
//! | 2^22 | 0.88 | 0.82 | 0.60 |
//! | 2^23 | 1.67 | 1.97 | 0.97 |
//! | 2^27 | 32 | 36 | 13.5 |
//!
//! So keys are addresses only where they are numbers of groups, whose least and greatest are known.
//!
//! Partitioned, it is also chosen how columns come to pairs, by a sample of the keys (`sample.rs`): carried through the partition
//! (GFTR), or few pairs' gathered at random in the end (GFUR); and where build rows share keys, for which a table is in vain, it is
//! sort-merge at once.

use crate::device::cuda::equi::key_words::Addresses;
use crate::device::cuda::equi::sample::Sampled;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::memory_rates::MemoryRates;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// The side that is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    pub rows: usize,
    pub width: Width,
    /// Whether keys are numbers of groups.
    pub numbered: bool,
    /// Of the GPU's L2 cache.
    pub cache_bytes: u64,
    /// That an array of addresses may take.
    pub room: u64,
}

/// Addresses for each row, at most, among which most are taken.
const DENSE: u64 = 4;

/// Addresses at most when keys are to be addresses: those of wider keys are their group ids.
const MOST_ADDRESSES: u64 = 1 << 28;

impl Build {
    /// Whether its least and greatest key matter.
    pub(crate) fn may_be_direct(&self, wanted: Option<EquiStrategy>) -> bool {
        match wanted {
            Some(strategy) => strategy == EquiStrategy::Direct,
            None => self.numbered && self.fits_cache(self.rows as u64 * 4),
        }
    }

    /// A part of the cache is left to what streams through it.
    fn fits_cache(&self, bytes: u64) -> bool {
        bytes <= self.cache_bytes / 5 * 3
    }

    pub(crate) fn has_room_for(&self, addresses: Addresses) -> bool {
        addresses.count <= MOST_ADDRESSES.max(DENSE * self.rows as u64).min(1 << 31)
            && 4 * addresses.count <= self.room
    }
}

/// The strategy for a build side whose keys have these addresses, as far as they are known.
pub(crate) fn choose(
    build: &Build,
    addresses: Option<Addresses>,
    wanted: Option<EquiStrategy>,
) -> EquiStrategy {
    if let Some(strategy) = wanted {
        return strategy;
    }
    let rows = build.rows as u64;
    // Slots hold short keys whole; long ones are compared besides.
    let of_keys = match build.width {
        Width::Four => 0,
        Width::Eight => 8 * rows,
    };
    match addresses {
        Some(of)
            if of.count <= DENSE * rows.max(1 << 10)
                && build.has_room_for(of)
                && build.fits_cache(4 * of.count) =>
        {
            EquiStrategy::Direct
        }
        // Two slots of 8 bytes a row.
        _ if build.fits_cache((2 * rows).next_power_of_two() * 8 + of_keys) => EquiStrategy::Hash,
        _ => EquiStrategy::PartitionedHash,
    }
}

/// Build rows among those of a sample whose keys others of them have, by which keys are taken for shared: two rows a key, of which a
/// sample has one in 16. By chance far fewer have a bit in common.
const SHARED: f64 = 0.02;

/// Whether build rows share keys.
pub(crate) fn share_keys(of: Sampled) -> bool {
    of.again > SHARED
}

/// The columns of a side that a join may carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload {
    pub rows: usize,
    /// Of the carried values of a row.
    pub bytes: usize,
    pub columns: usize,
    /// Whether row numbers go along all the same, for columns that cannot be carried.
    pub with_rows: bool,
}

/// What the two passes of a partition take for each byte of a row, in copies of a byte, and what a pair's value takes, in values gathered
/// at random: 2^25 ⋈ 2^26 rows with 0 to 8 columns of 4 bytes a side took 1.8 ms, 0.7 more for each if few rows match (1.75 ps a byte), and
/// by row numbers 0.7 and 2.3 for each if all do (19 ps a value), on an H200, for which `runtime/rates.rs` measures 0.51 ps and 23.7.
const PASSES: f64 = 3.43;
const GATHERS: f64 = 0.8;

/// How the columns of both sides come to pairs soonest, where this share of the second one's rows matches: what GFTR moves more, or what
/// GFUR gathers.
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
    use crate::device::cuda::runtime::memory_rates::H200;

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
            materialization(build, probe, matches, H200)
        };
        assert_eq!(chosen(2, 0.03), Gfur);
        assert_eq!(chosen(2, 0.25), Gftr);
        assert_eq!(chosen(8, 0.1), Gfur);
        // Row numbers are as long as the columns, or there are none.
        assert_eq!(chosen(1, 0.03), Gftr);
        assert_eq!(chosen(0, 0.03), Gftr);
        // A card that gathers as fast as it copies.
        let (build, probe) = (payload(1 << 25, 2), payload(1 << 26, 2));
        let flat = MemoryRates {
            gathered_value: 1.0,
            ..H200
        };
        assert_eq!(materialization(build, probe, 1.0, flat), Gfur);
        let again = |again| Sampled {
            matches: None,
            again,
        };
        assert!(share_keys(again(0.03)) && !share_keys(again(0.01)));
    }

    fn chosen(rows: usize, width: Width, count: Option<u64>) -> EquiStrategy {
        let build = Build {
            rows,
            width,
            numbered: count.is_some(),
            cache_bytes: 60 << 20,
            room: 1 << 30,
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
