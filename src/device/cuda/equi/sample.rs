//! What \[W\] 4.1 chooses an equi-join's way by, and no plan knows: how many probe rows match, and whether build rows share keys; from a
//! sample of the keys (`kernels/equi/equi_sample.cuh`).

use std::sync::Arc;

use crate::device::cuda::equi::key_words::EquiKeys;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::launch::Arg;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// Bits of the sampled keys, as a power of two.
const LOG_BITS: u32 = 22;
/// Build rows that are read, or one tile in 16 of them if that is more; and those of them that are sampled, as a power of two: of so
/// many bits one in 128 is set (one in 32 of 2^31 rows, as the mask has no more bits).
const BUILD_ROWS: usize = 1 << 21;
const MOST_SKIPPED: usize = 16;
const LOG_SAMPLED: u32 = 15;
/// The mixed bits that say whether a key is sampled, which are others than those that say its bit.
const MOST_MASK_BITS: u32 = 10;
/// Sampled probe rows that are wanted, and keys of them below which nothing is said: a tenth of 2^13 keys that match is 51 beside 64 by
/// chance, which tells it from a 20th.
const PROBE_ROWS: usize = 1 << 13;
const LEAST_KEYS: f64 = 1024.0;
/// Rows of a tile, of which every so many are read.
const TILE: usize = 1024;

/// Build rows below which a sample would take a tenth of the join.
const LEAST_ROWS: usize = 1 << 22;

/// Shares of what was sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    /// Of the probe side's keys: those that match, as far as it can be said.
    pub(crate) matches: Option<f64>,
    /// Of the sampled build rows: those whose key another one of them had before.
    pub(crate) again: f64,
}

/// How much is read: one in so many tiles of each side, and the bits that are zero in sampled keys.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidates {
    build: usize,
    probe: usize,
    mask_bits: u32,
}

impl Candidates {
    fn of(build: usize, probe: usize) -> Self {
        let of_build = (build / BUILD_ROWS).clamp(1, MOST_SKIPPED);
        let sampled = (build / of_build).max(1).ilog2();
        let mask_bits = sampled.saturating_sub(LOG_SAMPLED).min(MOST_MASK_BITS);
        Self {
            build: of_build,
            probe: (probe / (PROBE_ROWS << mask_bits)).max(1),
            mask_bits,
        }
    }
}

impl Sampled {
    /// Of counts of build rows, of those that found their bit set, of probe keys, and of those that did; where one in so many build rows
    /// was read.
    fn of([build, again, probe, found]: [u32; 4], every: usize) -> Self {
        let [build, again, probe, found] = [build, again, probe, found].map(f64::from);
        // Bits that are set, for whatever key.
        let set = (build - again) / f64::from(1u32 << LOG_BITS);
        let by_key = |share: f64, by_chance: f64| {
            let share = (share - by_chance) / (1.0 - by_chance);
            share.clamp(0.0, 1.0)
        };
        let matches = || (by_key(found / probe, set) * every as f64).min(1.0);
        Self {
            matches: (probe >= LEAST_KEYS).then(matches),
            // While bits were set one after the other.
            again: match build > 0.0 {
                true => by_key(again / build, set / 2.0),
                false => 0.0,
            },
        }
    }
}

impl Stream {
    /// `None` where rows are too few for a sample to be worth it.
    pub(crate) fn sample_keys(
        self: &Arc<Self>,
        build: &EquiKeys<'_>,
        probe: &EquiKeys<'_>,
    ) -> Result<Option<Sampled>> {
        if build.rows < LEAST_ROWS {
            return Ok(None);
        }
        self.sampled(build, probe).map(Some)
    }

    /// Of two sides whose keys are of one width.
    pub(crate) fn sampled(
        self: &Arc<Self>,
        build: &EquiKeys<'_>,
        probe: &EquiKeys<'_>,
    ) -> Result<Sampled> {
        let steps = Candidates::of(build.rows, probe.rows);
        let words = (1 << LOG_BITS) / 32;
        // The bits of both sides, then two counts of each.
        let bits = self.zeroed((2 * words + 4) * 4, "a sample")?;
        let [of_build, of_probe] = match build.width {
            Width::Four => ["equi_sample_build_u32", "equi_sample_probe_u32"],
            Width::Eight => ["equi_sample_build_u64", "equi_sample_probe_u64"],
        };
        for (side, every, kernel, memory) in [
            (
                build,
                steps.build,
                of_build,
                vec![Arg::from(&bits), bits.word(2 * words)],
            ),
            (
                probe,
                steps.probe,
                of_probe,
                vec![Arg::from(&bits), bits.word(words), bits.word(2 * words + 2)],
            ),
        ] {
            let mut args: Vec<Arg> = vec![
                side.words()?.into(),
                side.valid().into(),
                (side.rows as u32).into(),
                (every as u32).into(),
                ((1u32 << steps.mask_bits) - 1).into(),
            ];
            args.extend(memory);
            let tiles = side.rows.div_ceil(TILE).div_ceil(every);
            // SAFETY: there are so many keys of the kernel's width, and as many bits; the sampled bits of both sides and two counts of
            // each are clear, but for what the first launch wrote.
            unsafe { self.launch(kernel, self.strips(tiles * TILE / 4), &args)? };
        }
        let mut bytes = [0; 16];
        self.read_few(&mut bytes, &bits, 2 * words * 4)?;
        let count = |at: usize| {
            let word = bytes[at * 4..][..4].try_into();
            u32::from_le_bytes(word.unwrap_or_default())
        };
        Ok(Sampled::of([0, 1, 2, 3].map(count), steps.build))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_are_set_by_chance_are_taken_off() {
        let bits = 1u32 << LOG_BITS;
        let half = Sampled::of([bits / 2, 0, 2000, 1000], 4);
        assert_eq!(half.matches, Some(0.0));
        assert_eq!(half.again, 0.0);
        let all = Sampled::of([100_000, 75_000, 2000, 2000], 1);
        assert_eq!(all.matches, Some(1.0));
        assert!((0.745..0.75).contains(&all.again), "{all:?}");
        // A quarter of the keys of an eighth of the rows.
        let some = Sampled::of([0, 0, 3200, 100], 8).matches;
        assert!(
            some.is_some_and(|some| (some - 0.25).abs() < 1e-9),
            "{some:?}"
        );
        assert_eq!(Sampled::of([0; 4], 1).matches, None);
    }

    #[test]
    fn samples_are_neither_few_nor_many() {
        for log in 0..31 {
            let rows = 1usize << log;
            let steps = Candidates::of(rows, rows);
            let read = rows / steps.build;
            assert!(read >= BUILD_ROWS || steps.build == 1, "2^{log}");
            let sampled = read >> steps.mask_bits;
            assert!(sampled <= 1 << 17, "2^{log}: {sampled}");
            assert!(
                sampled >= 1 << LOG_SAMPLED || steps.mask_bits == 0,
                "2^{log}"
            );
            let probe = (rows / steps.probe) >> steps.mask_bits;
            assert!(probe >= PROBE_ROWS || steps.probe == 1, "2^{log}");
        }
    }
}
