//! [`Directory`]: finds a word among sorted keys by its leading bits, instead of by halves.

use std::ops::Range;
use std::sync::Arc;

use crate::device::budget::{Budget, Lease};
use crate::error::Result;

/// Words that are looked up together.
pub(crate) const BLOCK: usize = 64;

/// Keys of a bucket that are compared one after the other; more are searched by halves.
const FEW: u32 = 4;

/// For each segment of sorted keys, where the keys of each bucket begin. A bucket has the keys with the same leading
/// bits of their distance from the segment's least key, and there are about as many buckets as keys.
#[derive(Debug)]
pub(crate) struct Directory {
    segments: Vec<Segment>,
    /// The first position of each bucket, segment by segment, and the end of the last one.
    begins: Vec<u32>,
    _lease: Lease,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    least: u64,
    /// The number of bits of a distance behind the leading ones.
    shift: u32,
    /// Buckets with keys; one for greater words follows.
    buckets: u64,
    /// The number of its first bucket.
    first: u32,
    begin: u32,
    end: u32,
}

impl Directory {
    /// Of `keys`, which are sorted within `segments` (where each begins, and the end of the last one).
    pub(crate) fn new(budget: &Arc<Budget>, keys: &[u64], segments: &[u32]) -> Result<Self> {
        let bounds = segments.windows(2);
        let mut described: Vec<Segment> = Vec::with_capacity(bounds.len());
        let mut buckets = 0u64;
        for bounds in bounds {
            let (begin, end) = (bounds[0], bounds[1]);
            let of_segment = &keys[begin as usize..end as usize];
            let (least, greatest) = match of_segment {
                [] => (0, 0),
                [first, ..] => (*first, of_segment[of_segment.len() - 1]),
            };
            let leading = (end - begin).max(1).ilog2();
            let bits = u64::BITS - (greatest - least).leading_zeros();
            let shift = bits.saturating_sub(leading);
            let of_keys = ((greatest - least) >> shift) + 1;
            described.push(Segment {
                least,
                shift,
                buckets: of_keys,
                first: buckets as u32,
                begin,
                end,
            });
            // Where the last one with keys ends, the bucket behind it begins, and ends.
            buckets += of_keys + 2;
        }
        let of_segments = described.len() * size_of::<Segment>();
        let lease = budget.lease(buckets * 4 + of_segments as u64, "directory of keys")?;
        let mut begins = vec![0u32; buckets as usize];
        for (i, segment) in described.iter().enumerate() {
            let to = described
                .get(i + 1)
                .map_or(buckets, |next| u64::from(next.first));
            let begins = &mut begins[segment.first as usize..to as usize];
            let mut filled = 0;
            for position in segment.begin..segment.end {
                let bucket = segment.bucket(keys[position as usize]);
                while filled <= bucket {
                    begins[filled] = position;
                    filled += 1;
                }
            }
            begins[filled..].fill(segment.end);
        }
        Ok(Self {
            segments: described,
            begins,
            _lease: lease,
        })
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The positions of a segment.
    pub(crate) fn positions(&self, segment: usize) -> Range<usize> {
        let Segment { begin, end, .. } = self.segments[segment];
        begin as usize..end as usize
    }

    /// For each of up to [`BLOCK`] words, the first position of its segment whose key is not below it, or with `through` not equal to it
    /// either; the segment's end if there is none. `keys` are those that the directory was made of.
    ///
    /// Each step is done for all words before the next one, so that their loads, which miss the cache, are in flight together.
    pub(crate) fn find(
        &self,
        keys: &[u64],
        segments: &[u32],
        words: &[u64],
        through: bool,
        found: &mut [u32],
    ) {
        match through {
            true => self.find_by(keys, segments, words, found, |key, word| key <= word),
            false => self.find_by(keys, segments, words, found, |key, word| key < word),
        }
    }

    fn find_by(
        &self,
        keys: &[u64],
        segments: &[u32],
        words: &[u64],
        found: &mut [u32],
        is_before: impl Fn(u64, u64) -> bool,
    ) {
        let mut buckets = [(0, 0); BLOCK];
        for ((bucket, segment), word) in buckets.iter_mut().zip(segments).zip(words) {
            let segment = &self.segments[*segment as usize];
            let at = segment.first as usize + segment.bucket(*word);
            *bucket = (self.begins[at], self.begins[at + 1]);
        }
        let Some(last) = keys.len().checked_sub(1) else {
            found.fill(0);
            return;
        };
        for (((begin, end), word), found) in buckets.iter().zip(words).zip(found.iter_mut()) {
            let mut before = 0;
            for i in 0..FEW {
                let key = keys[((begin + i) as usize).min(last)];
                before += u32::from(begin + i < *end && is_before(key, *word));
            }
            *found = begin + before;
        }
        for (((begin, end), word), found) in buckets.iter().zip(words).zip(found) {
            let compared = begin + FEW;
            if *found == compared && compared < *end {
                let rest = &keys[compared as usize..*end as usize];
                *found += rest.partition_point(|key| is_before(*key, *word)) as u32;
            }
        }
    }
}

impl Segment {
    #[inline]
    fn bucket(&self, word: u64) -> usize {
        (word.saturating_sub(self.least) >> self.shift).min(self.buckets) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_a_plain_search() {
        let shapes: [(&str, Vec<Vec<u64>>); 7] = [
            ("none", vec![]),
            ("empty segments", vec![vec![], vec![], vec![5]]),
            ("one key", vec![vec![0], vec![u64::MAX]]),
            ("equal keys", vec![vec![7; 100], vec![3; 5]]),
            ("the widest range", vec![vec![0, 1, u64::MAX - 1, u64::MAX]]),
            (
                "even and clustered keys",
                vec![
                    (0..1000).map(|key| key * 977).collect(),
                    (0..1000).map(|key| 1 << (key / 16)).collect(),
                ],
            ),
            ("a distant key", vec![(0..500).chain([1 << 60]).collect()]),
        ];
        for (name, segments) in shapes {
            let keys: Vec<u64> = segments.concat();
            let mut bounds = vec![0u32];
            for segment in &segments {
                bounds.push(bounds[bounds.len() - 1] + segment.len() as u32);
            }
            let budget = Budget::new(u64::MAX);
            let directory = Directory::new(&budget, &keys, &bounds).unwrap();
            for (i, of_segment) in segments.iter().enumerate() {
                let near = |key: &u64| [key.saturating_sub(1), *key, key.saturating_add(1)];
                let words = of_segment.iter().flat_map(near).chain([0, 1, u64::MAX]);
                for word in words {
                    for through in [false, true] {
                        let mut found = [u32::MAX; 3];
                        let segments = [i as u32; 3];
                        directory.find(&keys, &segments, &[word; 3], through, &mut found);
                        let expected = bounds[i]
                            + of_segment
                                .iter()
                                .filter(|key| **key < word || (through && **key == word))
                                .count() as u32;
                        assert_eq!(found, [expected; 3], "{name}, {i}, {word}, {through}");
                    }
                }
            }
        }
    }
}
