//! Counting two inequalities: how many positions of a range have a second key below a word, in O(log n).
//!
//! The keys of a tested column, in the order of the first one, are replaced by their ranks 0 .. n. A wavelet tree (Grossi,
//! Gupta & Vitter 2003) over them is kept level by level: on each level ranks lie ordered by the bits above, otherwise by
//! position, and their next two bits, the digit, lie in two planes of bits. A block of 64 positions holds both planes and
//! how many digits below 1, 2 and 3 its node has before the block: 32 bytes, one sector of a GPU's memory. From a prefix of
//! a node, one block gives how many ranks of it have a smaller digit (they are counted) and how many have the same one (the
//! prefix of the child). Since ranks are 0 .. n, the node of the leading bits `t` begins at `t` followed by zeros, and
//! nothing needs to say where. The last 7 or 8 bits of all ranks are bytes: nodes of that length are compared whole.
//!
//! Keys come in the order of a [`Sorted`](crate::device::data::buffer::Sorted) and ranges are of its positions, so groups need no care.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::{Matches, Test};
use crate::device::host::keys::sort::{KeyedRow, sort_by_key};
use crate::device::host::theta::range::seek;
use crate::device::host::theta::zone_map::{HostMatches, ZonedKeys, sampled_leaf_tests};
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// Positions of a block, as many as a plane has bits in a word.
pub(crate) const BLOCK: usize = 64;
/// Bits of a digit.
const DIGIT_BITS: u32 = 2;
/// Fewer bits are not worth a tree; on a GPU one block of threads makes the levels of so many.
const LEAST_BITS: u32 = 12;

/// Positions that one task counts.
const TASK_ROWS: usize = 1 << 14;

/// How the ranks of `n` keys are cut into digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) n: usize,
    /// Bits of a rank.
    pub(crate) bits: u32,
    /// Bits of it that no level has: 7 or 8.
    pub(crate) low_bits: u32,
}

impl Layout {
    pub(crate) fn of(n: usize) -> Self {
        let bits = (usize::BITS - n.saturating_sub(1).leading_zeros()).max(LEAST_BITS);
        Self {
            n,
            bits,
            low_bits: 8 - bits % DIGIT_BITS,
        }
    }

    pub(crate) fn levels(&self) -> u32 {
        (self.bits - self.low_bits) / DIGIT_BITS
    }

    /// Bits below the digit of a level.
    pub(crate) fn shift(&self, level: u32) -> u32 {
        self.bits - (level + 1) * DIGIT_BITS
    }

    /// Blocks of a level.
    pub(crate) fn blocks(&self) -> usize {
        self.n.div_ceil(BLOCK)
    }
}

/// What a walk over zone maps costs, and what the index does, measured on one machine: only their ratios matter.
#[derive(Debug)]
pub(crate) struct Costs {
    /// One key of the searching side compared with a leaf.
    pub(crate) leaf_test: f64,
    /// To begin.
    pub(crate) begin: f64,
    /// To build the index, for each sorted position.
    pub(crate) build: f64,
    /// To count, for each searching position.
    pub(crate) count: f64,
}

/// Nanoseconds of one core: of a leaf test with 256-bit vectors, and of 10^6 random keys a side.
const HOST: Costs = Costs {
    leaf_test: 8.0,
    begin: 10_000.0,
    build: 70.0,
    count: 300.0,
};

impl Costs {
    /// What counting by the index costs; `None` where it cannot serve.
    ///
    /// It does not where one match a row is enough. The zone of a block that lies inside of a row's range says whether the
    /// block has a match, so a walk that ends there takes O(log n) for every row.
    pub(crate) fn index(
        &self,
        matches: Matches<'_>,
        exists_only: bool,
        built: impl FnOnce(&Test<'_>) -> Result<bool>,
    ) -> Result<Option<f64>> {
        let [test] = matches.tests else {
            return Ok(None);
        };
        if exists_only || !test.op.is_inequality() {
            return Ok(None);
        }
        let (n, m) = (matches.sorted.len() as f64, matches.ranges.rows() as f64);
        let build = match built(test)? {
            true => 0.0,
            false => self.build * n,
        };
        Ok(Some(self.begin + build + self.count * m))
    }

    /// Whether a walk over the zone maps is expected to cost more than `other`. `leaf_tests` says how many leaves it is
    /// expected to test; it is only asked where the walk could cost that much at all. A leaf that one test leaves undecided
    /// mostly has keys for the next one too, so each test counts.
    pub(crate) fn walk_exceeds(
        &self,
        other: f64,
        matches: Matches<'_>,
        leaf_tests: impl FnOnce() -> Result<f64>,
    ) -> Result<bool> {
        let (n, m) = (matches.sorted.len() as f64, matches.ranges.rows() as f64);
        let leaf = self.leaf_test * matches.tests.len() as f64;
        let most = (n / BLOCK as f64).ceil() * m;
        Ok(most * leaf > other && leaf_tests()? * leaf > other)
    }
}

/// A wavelet tree over the ranks of keys.
#[derive(Debug)]
pub(crate) struct Wavelet {
    layout: Layout,
    /// The keys in ascending order: a word becomes a rank by a search in them.
    keys: Vec<u64>,
    levels: Vec<Vec<Block>>,
    /// The low bits of the ranks in the order below the last level.
    low: Vec<u8>,
    _lease: Lease,
}

/// Digits of 64 positions.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// How many digits of the node before this block are less than 1, 2, 3.
    below: [u32; 3],
    /// The digits' low and high bits.
    planes: [u64; 2],
}

impl Block {
    /// Of a node's first `end` positions, the last of which lie in this block: those with a smaller digit, and those with
    /// this one.
    fn count(&self, digit: u32, end: u32) -> (u32, u32) {
        let inside = end % BLOCK as u32;
        let wanted = (1u64 << inside) - 1;
        let [low, high] = self.planes;
        let less = match digit {
            0 => 0,
            1 => !(low | high),
            2 => !high,
            _ => !(low & high),
        };
        let same = match digit {
            0 => !(low | high),
            1 => low & !high,
            2 => !low & high,
            _ => low & high,
        };
        let [one, two, three] = self.below;
        let edges = [0, one, two, three, end - inside];
        let digit = digit as usize;
        (
            edges[digit] + (less & wanted).count_ones(),
            edges[digit + 1] - edges[digit] + (same & wanted).count_ones(),
        )
    }
}

impl Wavelet {
    /// The tree over keys by position.
    fn build(budget: &Arc<Budget>, keys: &[u64], cancelled: &AtomicBool) -> Result<Self> {
        let layout = Layout::of(keys.len());
        let n = keys.len() as u64;
        let blocks = u64::from(layout.levels()) * (layout.blocks() * size_of::<Block>()) as u64;
        let lease = budget.lease(n * 9 + blocks, "counts of two inequalities")?;
        let _scratch = budget.lease(n * 32, "counts of two inequalities")?;

        let mut keyed: Vec<KeyedRow> = (0..).zip(keys).map(KeyedRow::new).collect();
        sort_by_key(&mut keyed);
        let mut from = vec![0u32; keys.len()];
        for (rank, keyed) in (0..).zip(&keyed) {
            from[keyed.row as usize] = rank;
        }
        let keys = keyed.into_iter().map(|keyed| keyed.key).collect();

        let mut to = vec![0u32; from.len()];
        let mut levels = Vec::with_capacity(layout.levels() as usize);
        for level in 0..layout.levels() {
            if cancelled.load(Ordering::Relaxed) {
                return Err(BowtieError::Cancelled);
            }
            let shift = layout.shift(level);
            let node = 1 << (shift + DIGIT_BITS);
            let mut blocks = vec![Block::default(); layout.blocks()];
            from.par_chunks(node)
                .zip(to.par_chunks_mut(node))
                .zip(blocks.par_chunks_mut(node / BLOCK))
                .for_each(|((from, to), blocks)| partition(from, to, blocks, shift));
            levels.push(blocks);
            std::mem::swap(&mut from, &mut to);
        }
        let low = (1 << layout.low_bits) - 1;
        Ok(Self {
            layout,
            keys,
            levels,
            low: from.into_iter().map(|rank| (rank & low) as u8).collect(),
            _lease: lease,
        })
    }

    /// How many of the first `end` positions have a rank below `bound`.
    fn below(&self, bound: u32, end: u32) -> u32 {
        if bound as usize >= self.layout.n {
            return end;
        }
        let mut count = 0;
        let (mut start, mut len, mut end) = (0, self.layout.n as u32, end);
        for (level, blocks) in (0..).zip(&self.levels) {
            if end == 0 {
                return count;
            }
            // All of the node: its ranks follow one another.
            if end == len {
                return count + (bound - start);
            }
            let shift = self.layout.shift(level);
            let digit = bound >> shift & 3;
            let (less, same) = blocks[(start + end) as usize / BLOCK].count(digit, end);
            count += less;
            end = same;
            start += digit << shift;
            len = (len - (digit << shift)).min(1 << shift);
        }
        let low = &self.low[start as usize..(start + end) as usize];
        let bound = (bound - start) as u8;
        count + low.iter().map(|low| u32::from(*low < bound)).sum::<u32>()
    }

    /// For each word the rank from which on keys do not come before it: keys less than it, or with `through` equal to it
    /// too. In the order of the words a search begins where the last one ended.
    fn bounds(&self, words: &[u64], through: bool) -> Vec<u32> {
        let mut keyed: Vec<KeyedRow> = (0..).zip(words).map(KeyedRow::new).collect();
        sort_by_key(&mut keyed);
        let mut bounds = vec![0u32; words.len()];
        let mut bound = 0;
        for KeyedRow { key: word, row } in keyed {
            bound = match through {
                true => seek(&self.keys, bound, |key| key <= word),
                false => seek(&self.keys, bound, |key| key < word),
            };
            bounds[row as usize] = bound as u32;
        }
        bounds
    }

    /// For each searching position how many keys of its range pass the test, an inequality.
    fn count(&self, op: Comparison, words: &[u64], lo: &[u32], hi: &[u32], counts: &mut [u32]) {
        let through = matches!(op, Comparison::LtEq | Comparison::Gt);
        let bounds = self.bounds(words, through);
        for (((count, bound), lo), hi) in counts.iter_mut().zip(bounds).zip(lo).zip(hi) {
            let below = self.below(bound, *hi) - self.below(bound, *lo);
            *count = match op {
                Comparison::Lt | Comparison::LtEq => below,
                _ => hi - lo - below,
            };
        }
    }
}

/// Orders a node's ranks by their digit, and notes the digits.
fn partition(from: &[u32], to: &mut [u32], blocks: &mut [Block], shift: u32) {
    let mut seen = [0u32; 4];
    for (block, ranks) in blocks.iter_mut().zip(from.chunks(BLOCK)) {
        let [zeros, ones, twos, _] = seen;
        block.below = [zeros, zeros + ones, zeros + ones + twos];
        for (i, rank) in ranks.iter().enumerate() {
            let digit = rank >> shift & 3;
            block.planes[0] |= u64::from(digit & 1) << i;
            block.planes[1] |= u64::from(digit >> 1) << i;
            let seen = &mut seen[digit as usize];
            to[((digit << shift) + *seen) as usize] = *rank;
            *seen += 1;
        }
    }
}

/// The counts of each searching position, where the index is expected to find them sooner than a walk. `None` where it is
/// not, or where there is no room for it.
pub(crate) fn count_matches(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    exists_only: bool,
    cancelled: &AtomicBool,
) -> Result<Option<Buffer<u32>>> {
    let built = |test: &Test<'_>| Ok(test.sorted.0.get::<ZonedKeys>()?.wavelet.get().is_some());
    let leaf_tests = || Ok(sampled_leaf_tests(&HostMatches::new(&matches)?));
    let Some(index) = HOST.index(matches, exists_only, built)? else {
        return Ok(None);
    };
    if !HOST.walk_exceeds(index, matches, leaf_tests)? {
        return Ok(None);
    }
    // Where there is no room for the index, a smaller tile costs less than a walk.
    count_by_index(budget, matches, cancelled).map(Some)
}

fn count_by_index(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    cancelled: &AtomicBool,
) -> Result<Buffer<u32>> {
    let (lo, hi) = (matches.ranges.lo.on_host()?, matches.ranges.hi.on_host()?);
    let lease = budget.lease(lo.len() as u64 * 4, "match counts")?;
    let test = &matches.tests[0];
    let sorted: &ZonedKeys = test.sorted.0.get()?;
    // Two who build it at the same time make the same.
    let wavelet = match sorted.wavelet.get() {
        Some(wavelet) => wavelet,
        None => {
            let built = Wavelet::build(budget, sorted.keys(), cancelled)?;
            sorted.wavelet.get_or_init(|| built)
        }
    };
    let words = test.searching.0.get::<ZonedKeys>()?.keys();
    let mut counts = vec![0u32; lo.len()];
    counts
        .par_chunks_mut(TASK_ROWS)
        .zip(lo.par_chunks(TASK_ROWS).zip(hi.par_chunks(TASK_ROWS)))
        .zip(words.par_chunks(TASK_ROWS))
        .for_each(|((counts, (lo, hi)), words)| {
            if !cancelled.load(Ordering::Relaxed) {
                wavelet.count(test.op, words, lo, hi, counts);
            }
        });
    match cancelled.load(Ordering::Relaxed) {
        true => Err(BowtieError::Cancelled),
        false => Ok(Buffer::host(counts, lease)),
    }
}

#[cfg(test)]
mod tests;
