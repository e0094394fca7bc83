//! Counts the matches of two inequalities: the number of keys below a word in a range of positions, in O(log n).
//!
//! The keys of the tested column, in the order of the first one, are replaced by their ranks 0 .. n and stored in a
//! wavelet tree (Grossi, Gupta & Vitter 2003), level by level. On each level ranks are ordered by their upper bits,
//! then by position. Their next two bits, the digit, are stored in two bit planes. A block of 64 positions has both
//! planes and the numbers of digits below 1, 2 and 3 of its node before the block: 32 bytes, one memory sector of a
//! GPU. For a prefix of a node, one block gives the number of ranks with a smaller digit (which are counted) and with
//! the same digit (the prefix of the child). As ranks are 0 .. n, the node of leading bits `t` begins at `t` followed
//! by zeros, and no offsets are stored. The last 7 or 8 bits of all ranks are stored as bytes: nodes of that length are
//! scanned.
//!
//! Positions are those of an [`OrderedRows`](crate::device::data::ranges::OrderedRows); ranges are within its groups,
//! so groups need no special handling.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::host::keys::sort::{KeyedRow, sort_by_key};
use crate::device::host::theta::range::seek;
use crate::device::wavelet::{BLOCK, DIGIT_BITS, Layout};
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// Positions that one task counts.
pub(crate) const TASK_ROWS: usize = 1 << 14;

/// A wavelet tree over the ranks of keys.
#[derive(Debug)]
pub(crate) struct Wavelet {
    layout: Layout,
    /// The keys in ascending order: a binary search turns a word into a rank.
    keys: Vec<u64>,
    levels: Vec<Vec<Block>>,
    /// The low bits of the ranks, in the order below the last level.
    low: Vec<u8>,
    _lease: Lease,
}

/// The digits of 64 positions.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// The numbers of digits less than 1, 2 and 3 of the node before this block.
    below: [u32; 3],
    /// The low and the high bits of the digits.
    planes: [u64; 2],
}

impl Block {
    /// Of the first `end` positions of a node, the last of them in this block: the number with a smaller digit, and the
    /// number with this digit.
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
    /// Builds the tree over keys by position.
    pub(crate) fn build(
        budget: &Arc<Budget>,
        keys: &[u64],
        cancelled: &AtomicBool,
    ) -> Result<Self> {
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

    /// The number of ranks below `bound` among the first `end` positions.
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
            // The whole node: its ranks are consecutive.
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

    /// For each word, the number of keys less than it, or with `through` less than or equal to it. Words are searched
    /// in ascending order, each from the previous result.
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

    /// Writes to `counts`, by probe position, the number of keys of the range that pass the test, an inequality.
    pub(crate) fn count(
        &self,
        op: Comparison,
        words: &[u64],
        lo: &[u32],
        hi: &[u32],
        counts: &mut [u32],
    ) {
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

/// Orders the ranks of a node by their digits, and stores the digits.
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

#[cfg(test)]
mod tests;
