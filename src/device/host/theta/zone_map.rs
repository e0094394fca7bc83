//! Zone maps: keys in build order with the minimum and maximum of every block, and the walk that uses them.
//!
//! The candidates of a probe row are the build positions of its range. The walk moves 64 probe rows, neighbours in key
//! order, down one tree of blocks together. At each block it decides for all 64 rows whether no key of the block, or
//! every key, satisfies the row's tests. A row skips the block in the first case, accepts it whole in the second, and
//! otherwise descends. In a leaf, 64 keys are compared with a row's key in one vector loop. The work is proportional to
//! the output, not to the product of the inputs.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pulp::Arch;
use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Matches, Test};
use crate::device::data::ranges::OrderedRows;
use crate::device::host::theta::wavelet_tree::Wavelet;
use crate::error::Result;
use crate::ir::comparison::Comparison;

/// Positions in a block of the lowest level, and probe rows in a group: one bit each in a word.
pub(crate) const LEAF: usize = 64;
/// Blocks of one level in a block of the next.
const FAN_OUT: usize = 8;
/// Keys that one task orders, at least.
const TASK_ROWS: usize = 1 << 14;

/// Keys by build position, and zones: level 0 of 64 keys each, every further level of 8 zones of the level below.
#[derive(Debug)]
pub(crate) struct ZonedKeys {
    keys: Vec<u64>,
    levels: Vec<Zones>,
    /// Built on first use, and kept as long as the keys.
    pub(crate) wavelet: OnceLock<Wavelet>,
    _leases: [Lease; 2],
}

impl ZonedKeys {
    /// The keys by position.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }
}

/// The extremes of the blocks of one level.
#[derive(Debug)]
struct Zones {
    min: Vec<u64>,
    max: Vec<u64>,
}

/// Keys in the order of `build`, with the zones of all levels.
pub(crate) fn zone_keys(
    budget: &Arc<Budget>,
    keys: &Keys,
    build: &OrderedRows,
) -> Result<ZonedKeys> {
    let rows = build.rows.on_host()?;
    let keys_lease = budget.lease(rows.len() as u64 * 8, "build keys in order")?;
    let zones_lease = budget.lease(rows.len() as u64 / 3 + 64, "zone maps")?;
    let words = keys.values.on_host()?;
    // Each row is a random read.
    let ordered: Vec<u64> = rows
        .par_iter()
        .with_min_len(TASK_ROWS)
        .map(|row| words[*row as usize])
        .collect();
    let mut levels = vec![Zones {
        min: least(&ordered, LEAF),
        max: greatest(&ordered, LEAF),
    }];
    while let Some(below) = levels.last().filter(|level| level.min.len() > FAN_OUT) {
        levels.push(Zones {
            min: least(&below.min, FAN_OUT),
            max: greatest(&below.max, FAN_OUT),
        });
    }
    Ok(ZonedKeys {
        keys: ordered,
        levels,
        wavelet: OnceLock::new(),
        _leases: [keys_lease, zones_lease],
    })
}

fn least(words: &[u64], block: usize) -> Vec<u64> {
    let least = |block: &[u64]| block.iter().copied().fold(u64::MAX, u64::min);
    let blocks = words.par_chunks(block).with_min_len(TASK_ROWS / block);
    blocks.map(least).collect()
}

fn greatest(words: &[u64], block: usize) -> Vec<u64> {
    let greatest = |block: &[u64]| block.iter().copied().fold(0, u64::max);
    let blocks = words.par_chunks(block).with_min_len(TASK_ROWS / block);
    blocks.map(greatest).collect()
}

/// Matches of one probe row found in one step: all positions of a range, or those from `base` on whose bits are set.
pub(crate) enum Span {
    All(Range<usize>),
    Bits { base: usize, bits: u64 },
}

/// [`Matches`] as slices in host memory.
pub(crate) struct HostMatches<'a> {
    /// Row ids of the build side and of the probe side, by position.
    pub(crate) build: &'a [u32],
    pub(crate) probe: &'a [u32],
    /// The range of each probe position.
    pub(crate) lo: &'a [u32],
    pub(crate) hi: &'a [u32],
    pub(crate) tests: Vec<HostTest<'a>>,
}

/// A test as slices in host memory.
pub(crate) struct HostTest<'a> {
    op: Comparison,
    build: &'a ZonedKeys,
    /// The keys by probe position.
    probe: &'a [u64],
}

impl<'a> HostMatches<'a> {
    /// # Errors
    /// If a part belongs to another device.
    pub(crate) fn new(matches: &Matches<'a>) -> Result<Self> {
        let test = |test: &Test<'a>| {
            Ok(HostTest {
                op: test.op,
                build: test.build.0.get()?,
                probe: test.probe.0.get::<ZonedKeys>()?.keys(),
            })
        };
        Ok(Self {
            build: matches.build.rows.on_host()?,
            probe: matches.probe.rows.on_host()?,
            lo: matches.ranges.lo.on_host()?,
            hi: matches.ranges.hi.on_host()?,
            tests: matches.tests.iter().map(test).collect::<Result<_>>()?,
        })
    }
}

/// The state of a walk of one group of probe rows.
struct Walk<'a, V> {
    tests: &'a [HostTest<'a>],
    arch: Arch,
    /// The positions of the group's rows.
    rows: Range<usize>,
    lo: &'a [u32],
    hi: &'a [u32],
    /// Rows whose search goes on; bit `i` is row `rows.start + i`.
    alive: u64,
    visit: V,
}

/// Calls `visit` with each span of matches of the rows of group `group` (64 positions) whose bit in `rows` is set: the
/// row's position and the span, in ascending order for each row. The search for a row ends when `visit` returns false.
pub(crate) fn walk<'a, V: FnMut(usize, Span) -> bool>(
    matches: &'a HostMatches<'a>,
    group: usize,
    rows: u64,
    visit: V,
) {
    let positions = group * LEAF..((group + 1) * LEAF).min(matches.lo.len());
    let lo = &matches.lo[positions.clone()];
    let hi = &matches.hi[positions.clone()];
    let mut alive = 0;
    let (mut from, mut to) = (usize::MAX, 0);
    for (i, (lo, hi)) in lo.iter().zip(hi).enumerate() {
        if lo < hi && rows & (1 << i) != 0 {
            alive |= 1 << i;
            from = from.min(*lo as usize);
            to = to.max(*hi as usize);
        }
    }
    let mut walk = Walk {
        tests: &matches.tests,
        arch: Arch::new(),
        rows: positions,
        lo,
        hi,
        alive,
        visit,
    };
    if alive == 0 {
        return;
    }
    let Some(first) = matches.tests.first() else {
        return walk.take_all(alive, from..to);
    };
    // The top of the tree has at most FAN_OUT blocks.
    let top = first.build.levels.len() - 1;
    let size = block_size(top);
    for block in from / size..to.div_ceil(size) {
        walk.block(top, block, alive, from..to);
    }
}

/// Probe positions in the sample, and leaves of each one's range.
const SAMPLED_ROWS: usize = 2048;
const SAMPLED_LEAVES: usize = 16;

/// An estimate of how often a complete walk compares a row's key with a leaf: the fraction of undecided zones in a
/// sample of leaves, spread evenly over the ranges of a sample of rows.
pub(crate) fn sampled_leaf_tests(matches: &HostMatches<'_>) -> f64 {
    let rows = matches.lo.len();
    let sample = rows.min(SAMPLED_ROWS);
    let mut undecided = 0;
    for row in (0..sample).map(|i| i * rows / sample) {
        let lo = matches.lo[row] as usize;
        let hi = matches.hi[row] as usize;
        if lo >= hi {
            continue;
        }
        let (first, end) = (lo / LEAF, hi.div_ceil(LEAF));
        let leaves = end - first;
        for leaf in (0..SAMPLED_LEAVES).map(|i| first + (2 * i + 1) * leaves / (2 * SAMPLED_LEAVES))
        {
            let (mut possible, mut certain) = (true, true);
            for test in &matches.tests {
                let zones = &test.build.levels[0];
                let word = test.probe[row];
                let (min, max) = (zones.min[leaf], zones.max[leaf]);
                let (some, every) = judge(Arch::Scalar, test.op, min, max, &[word]);
                possible &= some != 0;
                certain &= every != 0;
            }
            undecided += if possible && !certain { leaves } else { 0 };
        }
    }
    undecided as f64 / SAMPLED_LEAVES as f64 * (rows as f64 / sample.max(1) as f64)
}

fn block_size(level: usize) -> usize {
    LEAF * FAN_OUT.pow(level as u32)
}

impl<V: FnMut(usize, Span) -> bool> Walk<'_, V> {
    /// Walks block `block` of `level` for the rows of `probe`. `within` contains all their ranges.
    fn block(&mut self, level: usize, block: usize, probe: u64, within: Range<usize>) {
        let size = block_size(level);
        let positions = (block * size).max(within.start)..((block + 1) * size).min(within.end);
        if positions.is_empty() {
            return;
        }
        let mut some = probe & self.alive;
        let mut all = some;
        for test in self.tests {
            if some == 0 {
                return;
            }
            let zones = &test.build.levels[level];
            let keys = &test.probe[self.rows.clone()];
            let (possible, certain) =
                judge(self.arch, test.op, zones.min[block], zones.max[block], keys);
            some &= possible;
            all &= certain;
        }
        all &= some;
        self.take_all(all, positions.clone());
        some &= !all & self.alive;
        if some == 0 {
            return;
        }
        if level == 0 {
            return self.leaf(some, positions);
        }
        let child = block_size(level - 1);
        for block in positions.start / child..positions.end.div_ceil(child) {
            self.block(level - 1, block, some, positions.clone());
        }
    }

    /// Reports `positions`, within each row's own range, as matches.
    fn take_all(&mut self, rows: u64, positions: Range<usize>) {
        for i in bits_of(rows) {
            let lo = positions.start.max(self.lo[i] as usize);
            let hi = positions.end.min(self.hi[i] as usize);
            if lo < hi {
                self.take(i, Span::All(lo..hi));
            }
        }
    }

    /// Compares the positions of one leaf key by key.
    fn leaf(&mut self, rows: u64, positions: Range<usize>) {
        for i in bits_of(rows) {
            let lo = positions.start.max(self.lo[i] as usize);
            let hi = positions.end.min(self.hi[i] as usize);
            if lo >= hi {
                continue;
            }
            let mut bits = u64::MAX;
            for test in self.tests {
                let keys = &test.build.keys[lo..hi];
                let word = test.probe[self.rows.start + i];
                bits &= compare(self.arch, keys, test.op, word);
                if bits == 0 {
                    break;
                }
            }
            if bits != 0 {
                self.take(i, Span::Bits { base: lo, bits });
            }
        }
    }

    fn take(&mut self, i: usize, span: Span) {
        if !(self.visit)(self.rows.start + i, span) {
            self.alive &= !(1 << i);
        }
    }
}

/// The indexes of the set bits, ascending.
pub(crate) fn bits_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then_some(bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        bit
    })
}

/// Bit `i` is set if `holds(words[i])`; at most 64 words.
#[inline(always)]
fn bits_where(words: &[u64], holds: impl Fn(u64) -> bool) -> u64 {
    words
        .iter()
        .enumerate()
        .fold(0, |bits, (i, word)| bits | u64::from(holds(*word)) << i)
}

/// Bit `i` is set if `keys[i] OP word`.
#[inline]
fn compare(arch: Arch, keys: &[u64], op: Comparison, word: u64) -> u64 {
    // One loop for each comparison, so that none branches inside.
    arch.dispatch(
        #[inline(always)]
        || match op {
            Comparison::Lt => bits_where(keys, |k| k < word),
            Comparison::LtEq => bits_where(keys, |k| k <= word),
            Comparison::Gt => bits_where(keys, |k| k > word),
            Comparison::GtEq => bits_where(keys, |k| k >= word),
            Comparison::Eq => bits_where(keys, |k| k == word),
            Comparison::NotEq => bits_where(keys, |k| k != word),
        },
    )
}

/// A bit for each probe key: whether some key, and whether every key, between `min` and `max` may satisfy `key OP
/// probe`.
#[inline]
fn judge(arch: Arch, op: Comparison, min: u64, max: u64, probe: &[u64]) -> (u64, u64) {
    arch.dispatch(
        #[inline(always)]
        || match op {
            Comparison::Lt => (
                bits_where(probe, |w| min < w),
                bits_where(probe, |w| max < w),
            ),
            Comparison::LtEq => (
                bits_where(probe, |w| min <= w),
                bits_where(probe, |w| max <= w),
            ),
            Comparison::Gt => (
                bits_where(probe, |w| max > w),
                bits_where(probe, |w| min > w),
            ),
            Comparison::GtEq => (
                bits_where(probe, |w| max >= w),
                bits_where(probe, |w| min >= w),
            ),
            Comparison::Eq => (
                bits_where(probe, |w| (min <= w) & (w <= max)),
                bits_where(probe, |w| (min == w) & (w == max)),
            ),
            Comparison::NotEq => (
                bits_where(probe, |w| (min != w) | (w != max)),
                bits_where(probe, |w| (w < min) | (max < w)),
            ),
        },
    )
}
