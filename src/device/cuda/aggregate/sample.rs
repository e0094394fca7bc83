//! [`Profile`]: the number of groups and their skew, estimated from a sample of the keys
//! (`kernels/aggregate/group_sample.cu`).

use std::sync::Arc;

use crate::device::cuda::aggregate::accumulate::accumulator::{Accumulator, Update};
use crate::device::cuda::aggregate::accumulate::added;
use crate::device::cuda::aggregate::accumulate::launches;
use crate::device::cuda::aggregate::directory::{self, GroupKeys, Ids};
use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::keys::tuples;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// Keys in a sample.
pub(crate) const SAMPLES: usize = 1 << 16;

/// Estimates of the groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Profile {
    /// The number of groups.
    pub(crate) groups: usize,
    /// The share of the rows that the largest group has.
    pub(crate) largest: f64,
    /// The share of the rows whose groups the sample did not see (Good 1953).
    pub(crate) unseen: f64,
    /// The capacity in groups of the first hash table.
    pub(crate) limit: usize,
}

/// The assumed number of groups where the rows are too few for a sample.
const GUESS: usize = 1 << 12;

impl Profile {
    /// Without a sample, for few rows.
    fn of_unsampled(rows: usize) -> Self {
        Self {
            groups: rows.min(GUESS),
            largest: 0.0,
            unseen: 0.0,
            limit: rows,
        }
    }

    /// From a sample with `groups` groups, `once` and `twice` of which occurred once and twice, and with `greatest`
    /// rows of the largest group. The estimate is Chao's (1984), and at most the groups seen with those seen once
    /// scaled up to all rows.
    fn of_sample(rows: usize, samples: usize, [groups, once, twice, greatest]: [u32; 4]) -> Self {
        let [seen, once, twice] = [groups, once, twice].map(f64::from);
        let scaled = seen - once + once * rows as f64 / samples as f64;
        let unseen = match twice > 0.0 {
            true => once * once / (2.0 * twice),
            false => f64::INFINITY,
        };
        let groups = match once > 0.0 {
            true => (seen + unseen).min(scaled),
            false => seen,
        } as usize;
        Self {
            groups,
            largest: f64::from(greatest) / samples as f64,
            unseen: once / samples as f64,
            limit: 2 * groups + GUESS,
        }
    }
}

/// The words of the kernel's profile, and its capacity for ids of heavy groups.
const PROFILE_WORDS: usize = 6;
const MOST_HEAVY: usize = 64;

/// The profile of the keys of `rows` > 0 rows.
pub(crate) fn profile(stream: &Arc<Stream>, keys: &GroupKeys<'_>, rows: usize) -> Result<Profile> {
    if rows <= SAMPLES {
        return Ok(Profile::of_unsampled(rows));
    }
    match keys {
        GroupKeys::Plain(values, bits) => {
            let sample = stream.alloc(SAMPLES * bits.bytes(), "a sample")?;
            write_sample(stream, Part::from(*values), *bits, rows, (&sample).into())?;
            profile_of(stream, &GroupKeys::Plain(&sample, *bits), rows)
        }
        GroupKeys::Tuples(tuples) => {
            let sample = tuples::allocate_tuples(stream, SAMPLES, tuples.width())?;
            for j in 0..tuples.width() {
                write_sample(stream, tuples.word(j)?, Width::Eight, rows, sample.word(j)?)?;
            }
            profile_of(stream, &GroupKeys::Tuples(sample), rows)
        }
    }
}

/// The profile of ids by direct address, all below `range`.
pub(crate) fn profile_of_ids(
    stream: &Arc<Stream>,
    ids: Ids<'_>,
    range: usize,
    rows: usize,
) -> Result<Profile> {
    if rows <= SAMPLES {
        return Ok(Profile::of_unsampled(rows));
    }
    let words = sampled_words(stream, ids.words, rows)?;
    let words = &words;
    profile_of_sampled_ids(stream, Ids { words, ..ids }, range, rows)
}

/// A sample of the words of `rows` rows, which have 32 bits. `rows` exceeds [`SAMPLES`].
pub(crate) fn sampled_words(stream: &Arc<Stream>, words: &Memory, rows: usize) -> Result<Memory> {
    let sample = stream.alloc(SAMPLES * 4, "a sample")?;
    write_sample(stream, words.into(), Width::Four, rows, (&sample).into())?;
    Ok(sample)
}

/// The profile of sampled ids, all below `range`.
pub(crate) fn profile_of_sampled_ids(
    stream: &Arc<Stream>,
    sample: Ids<'_>,
    range: usize,
    rows: usize,
) -> Result<Profile> {
    let count = [Accumulator::of_rows(Update::Count, None)];
    let outs = added::outs(stream, &count, range)?;
    launches::accumulate_dense(stream, sample, SAMPLES, range, &count, &outs, true)?;
    profile_of_counts(stream, &outs[0], range, rows)
}

/// Writes a sample of the words of `rows` rows to `out`.
fn write_sample(
    stream: &Arc<Stream>,
    words: Part<'_>,
    bits: Width,
    rows: usize,
    out: Part<'_>,
) -> Result<()> {
    let kernel = match bits {
        Width::Four => kernels::GROUP_SAMPLE_U32,
        Width::Eight => kernels::GROUP_SAMPLE_U64,
    };
    let kept = stream.alloc(bitmap_bytes(SAMPLES), "a sample")?;
    let all: Option<&Memory> = None;
    let args = (
        words.into(),
        all.into(),
        (rows as u32).into(),
        out.into(),
        (&kept).into(),
        (SAMPLES as u32).into(),
    );
    // SAFETY: there are `rows` words, no fewer than samples; `out` holds the samples, of the words' bits each, and
    // `kept` a bit for each.
    unsafe { stream.launch(kernel, stream.strips(SAMPLES), &args) }
}

/// The profile of the sampled keys of `rows` rows.
fn profile_of(stream: &Arc<Stream>, sample: &GroupKeys<'_>, rows: usize) -> Result<Profile> {
    let (ids, groups) = directory::hashed_ids(stream, sample, SAMPLES, SAMPLES)?;
    profile_of_sampled_ids(stream, (&ids).into(), groups, rows)
}

/// The profile from the counts of `groups` groups in a sample of `rows` rows.
fn profile_of_counts(
    stream: &Arc<Stream>,
    counts: &Memory,
    groups: usize,
    rows: usize,
) -> Result<Profile> {
    let found = stream.upload_words(&[groups as u64], "a sample")?;
    let profile = stream.zeroed(PROFILE_WORDS * 4, "a sample")?;
    let heavy = stream.alloc(MOST_HEAVY * 4, "a sample")?;
    let args = (
        counts.into(),
        (&found).into(),
        // Ids of heavy groups are not needed.
        u32::MAX.into(),
        (&profile).into(),
        (&heavy).into(),
    );
    // SAFETY: `counts` holds a count for each of the groups, whose number `found` holds; the profile is clear and
    // has its words, and `heavy` holds the ids that are written.
    unsafe { stream.launch(kernels::GROUP_SAMPLE_PROFILE, stream.strips(groups), &args)? };
    let mut bytes = [0; PROFILE_WORDS * 4];
    stream.read_few(&mut bytes, &profile, 0)?;
    let word = |at: usize| {
        let word = bytes[at * 4..][..4].try_into();
        u32::from_le_bytes(word.unwrap_or_default())
    };
    Ok(Profile::of_sample(rows, SAMPLES, [0, 1, 2, 3].map(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_estimated_from_those_seen_once_and_twice() {
        let samples = SAMPLES;
        // Every group was seen often.
        let few = Profile::of_sample(1 << 28, samples, [100, 0, 0, 700]);
        assert_eq!(few.groups, 100);
        // Every sample is a different key: so may every row be.
        let all = [samples as u32, samples as u32, 0, 1];
        assert_eq!(Profile::of_sample(1 << 28, samples, all).groups, 1 << 28);
        // Samples of 2^20 equally likely keys have the same key now and then.
        let once = 61_600;
        let some = Profile::of_sample(1 << 28, samples, [63_500, once, 1_850, 4]);
        assert!((900_000..1_200_000).contains(&some.groups), "{some:?}");
        // One key has half of the rows.
        let heavy = Profile::of_sample(1 << 28, samples, [2, 0, 0, samples as u32 / 2]);
        assert_eq!(heavy.largest, 0.5);
    }
}
