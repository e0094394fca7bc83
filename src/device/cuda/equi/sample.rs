//! What a plan does not know of an equi-join: the match ratio, on which the model of \[W\] 4.1.4 depends, and whether
//! build keys are unique; from a sample of the keys (`kernels/equi/equi_sample.cuh`). `choose.rs` decides by it.

use std::sync::Arc;

use crate::device::cuda::equi::key_words::EquiKeys;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// Size of the bitmap of sampled keys, in bits, as a power of two.
const LOG_BITS: u32 = 22;
/// Build rows that are read, at least: [`BUILD_ROWS`], or one tile in [`MOST_SKIPPED`] if that is more. The third is
/// how many of them are sampled, as a power of two: one bit in 128 of the bitmap is set then (one in 32 for 2^31 rows,
/// as the mask has no more bits).
const BUILD_ROWS: usize = 1 << 21;
const MOST_SKIPPED: usize = 16;
const LOG_SAMPLED: u32 = 15;
/// Bits of a mixed key that decide whether it is sampled, at most. The bits that index the bitmap are others.
const MOST_MASK_BITS: u32 = 10;
/// Sampled probe rows that are wanted, and the number of sampled probe keys below which there is no match ratio. A
/// match ratio of a tenth of 2^13 keys is 51 hits beside 64 by chance, which tells it from one of a 20th.
const PROBE_ROWS: usize = 1 << 13;
const LEAST_KEYS: f64 = 1024.0;
/// Rows of a tile; a sample reads one tile in every few.
const TILE: usize = 1024;

/// Build rows below which a sample would take a tenth of the time of the join.
pub(crate) const LEAST_ROWS: usize = 1 << 22;

/// The estimates of a sample, as shares from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    /// Share of the probe keys that match; `None` if too few were sampled.
    pub(crate) matches: Option<f64>,
    /// Share of the sampled build rows with the key of an earlier sampled row.
    pub(crate) again: f64,
}

/// How much is read: one tile in `build` and one in `probe`, and the number of bits that are zero in sampled keys.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SampleSteps {
    build: usize,
    probe: usize,
    mask_bits: u32,
}

impl SampleSteps {
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
    /// The estimates from four counts: sampled build rows, those that found their bit set, sampled probe keys, and
    /// those that found theirs set. One build tile in `every` was read.
    fn of([build, again, probe, found]: [u32; 4], every: usize) -> Self {
        let [build, again, probe, found] = [build, again, probe, found].map(f64::from);
        // Share of the bits that are set: the chance of a hit without an equal key.
        let set = (build - again) / f64::from(1u32 << LOG_BITS);
        let by_key = |share: f64, by_chance: f64| {
            let share = (share - by_chance) / (1.0 - by_chance);
            share.clamp(0.0, 1.0)
        };
        let matches = || (by_key(found / probe, set) * every as f64).min(1.0);
        Self {
            matches: (probe >= LEAST_KEYS).then(matches),
            // On average half of the bits were set when a build row was tested.
            again: match build > 0.0 {
                true => by_key(again / build, set / 2.0),
                false => 0.0,
            },
        }
    }
}

/// Samples both sides; `None` if there are too few build rows for a sample to be worth its time.
pub(crate) fn sample_keys(
    stream: &Arc<Stream>,
    build: &EquiKeys<'_>,
    probe: &EquiKeys<'_>,
) -> Result<Option<Sampled>> {
    if build.rows < LEAST_ROWS {
        return Ok(None);
    }
    sampled(stream, build, probe).map(Some)
}

/// Samples two sides with keys of one width.
pub(crate) fn sampled(
    stream: &Arc<Stream>,
    build: &EquiKeys<'_>,
    probe: &EquiKeys<'_>,
) -> Result<Sampled> {
    let steps = SampleSteps::of(build.rows, probe.rows);
    let words = (1 << LOG_BITS) / 32;
    // Layout: the bitmap of each side, then two counts of each.
    let bits = stream.zeroed((2 * words + 4) * 4, "a sample")?;
    let (of_build, of_probe) = match build.width {
        Width::Four => (
            kernels::EQUI_SAMPLE_BUILD_U32,
            kernels::EQUI_SAMPLE_PROBE_U32,
        ),
        Width::Eight => (
            kernels::EQUI_SAMPLE_BUILD_U64,
            kernels::EQUI_SAMPLE_PROBE_U64,
        ),
    };
    let mask = (1u32 << steps.mask_bits) - 1;
    let shape = |side: &EquiKeys<'_>, every| {
        let tiles = side.rows.div_ceil(TILE).div_ceil(every);
        stream.strips(tiles * TILE / 4)
    };
    let args = (
        build.words()?.into(),
        build.valid().into(),
        (build.rows as u32).into(),
        (steps.build as u32).into(),
        mask.into(),
        (&bits).into(),
        bits.word(2 * words)?.into(),
    );
    // SAFETY: a side has `rows` keys of the kernel's width, and as many validity bits; the bitmap and two counts are
    // clear.
    unsafe { stream.launch(of_build, shape(build, steps.build), &args)? };
    let args = (
        probe.words()?.into(),
        probe.valid().into(),
        (probe.rows as u32).into(),
        (steps.probe as u32).into(),
        mask.into(),
        (&bits).into(),
        bits.word(words)?.into(),
        bits.word(2 * words + 2)?.into(),
    );
    // SAFETY: the same, but for the build side's bitmap, which the first launch wrote.
    unsafe { stream.launch(of_probe, shape(probe, steps.probe), &args)? };
    let mut bytes = [0; 16];
    stream.read_few(&mut bytes, &bits, 2 * words * 4)?;
    let count = |at: usize| {
        let word = bytes[at * 4..][..4].try_into();
        u32::from_le_bytes(word.unwrap_or_default())
    };
    Ok(Sampled::of([0, 1, 2, 3].map(count), steps.build))
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
        // A match ratio of a quarter, with an eighth of the build rows read.
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
            let steps = SampleSteps::of(rows, rows);
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
