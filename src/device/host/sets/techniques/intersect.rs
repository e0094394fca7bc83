//! Pair by pair, for few sets of many elements: the intersect path cuts a pair into parts of equal length, which are
//! intersected in parallel, with binary searches where one set is much longer (IP-OBS, \[B\] 6.2.1).

use rayon::prelude::*;

use crate::device::data::results::SetTally;
use crate::device::host::sets::block::{Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::verify::{overlap, overlap_of_at_least};
use crate::error::Result;

/// The number of elements of both sets from which a pair is cut; and the number in a part.
const LONG: usize = 1 << 17;
const PART: usize = 1 << 15;

/// Shorter pairs between two checks for cancellation.
const STEP: u64 = 1 << 10;

/// Technique `intersect`, which has no index.
#[derive(Debug)]
pub(crate) struct Intersect;

/// The point where the merge path crosses the diagonal `i + j = diagonal`. Equal elements are on the same side of it.
fn crossing(a: &[u32], b: &[u32], diagonal: usize) -> (usize, usize) {
    let mut low = diagonal.saturating_sub(b.len());
    let mut high = diagonal.min(a.len());
    while low < high {
        let i = low + (high - low) / 2;
        match a[i] <= b[diagonal - i - 1] {
            true => low = i + 1,
            false => high = i,
        }
    }
    let (i, mut j) = (low, diagonal - low);
    // If the diagonal separates an element of `a` from its equal in `b`, include the latter.
    if i > 0 && b.get(j) == Some(&a[i - 1]) {
        j += 1;
    }
    (i, j)
}

/// The overlap of two long sets, in parallel.
fn path_overlap(a: &[u32], b: &[u32]) -> usize {
    let length = a.len() + b.len();
    let parts = length.div_ceil(PART);
    (0..parts)
        .into_par_iter()
        .map(|part| {
            let (from_a, from_b) = crossing(a, b, part * length / parts);
            let (to_a, to_b) = crossing(a, b, (part + 1) * length / parts);
            overlap(&a[from_a..to_a], &b[from_b..to_b])
        })
        .sum()
}

impl Technique for Intersect {
    type Scratch = ();

    fn scratch(&self, _: &Sets) {}

    fn scratch_bytes(&self, _: &Sets) -> u64 {
        0
    }

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        _: &mut (),
        sink: &mut S,
    ) -> Result<SetTally> {
        let mut tally = SetTally::default();
        for (i, window) in block.windows.iter().enumerate() {
            let at = block.first + i;
            let elements = search.probe.get(at);
            let size = search.probe.size(at);
            for position in window.clone() {
                if sink.is_full(i) {
                    break;
                }
                let others = search.indexed.get(position);
                let Some(least) = search.test.least_overlap(size, others.len() as u64) else {
                    continue;
                };
                let least = least as usize;
                tally.candidates += 1;
                let long = elements.len() + others.len() >= LONG;
                let matches = match long {
                    true => path_overlap(elements, others) >= least,
                    false => overlap_of_at_least(elements, others, least).is_some(),
                };
                if matches {
                    sink.found(i, position);
                }
                if long || tally.candidates % STEP == 0 {
                    search.step(sink)?;
                }
            }
            search.step(sink)?;
        }
        tally.verified = tally.candidates;
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_loses_nothing_at_its_cuts() {
        for (step_a, step_b, from) in [(1, 1, 0), (2, 3, 1), (1, 7, 5), (13, 1, 0)] {
            let a: Vec<u32> = (0..70_000).map(|i| i * step_a + from).collect();
            let b: Vec<u32> = (0..90_000).map(|i| i * step_b).collect();
            assert_eq!(path_overlap(&a, &b), overlap(&a, &b), "{step_a} {step_b}");
            assert_eq!(path_overlap(&b, &a), overlap(&a, &b), "{step_a} {step_b}");
        }
        // Every diagonal of short sets.
        let (a, b) = ([1, 3, 4, 8, 9], [1, 2, 4, 5, 9, 11]);
        let mut last = (0, 0);
        let mut shared = 0;
        for diagonal in 0..=a.len() + b.len() {
            let next = crossing(&a, &b, diagonal);
            assert!(next.0 >= last.0 && next.1 >= last.1, "{last:?} {next:?}");
            shared += overlap(&a[last.0..next.0], &b[last.1..next.1]);
            last = next;
        }
        assert_eq!((shared, last), (3, (a.len(), b.len())));
    }
}
