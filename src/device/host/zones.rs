//! Zone maps: keys in sorted order with the minimum and maximum of every block, and the walk that uses them.
//!
//! A searching row's candidates are the sorted positions of its range. The walk cuts the range into aligned blocks, drops
//! a block that no key can satisfy, takes a block whole that every key satisfies, and descends into the rest; at the
//! bottom 64 keys are compared with one word. Work is proportional to the boundary of the range plus the blocks that hold
//! a match, so it follows the output, not the product of the inputs.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::device::budget::{Budget, Lease};
use crate::device::buffer::{Buffer, Keys, Sorted};
use crate::device::{Matches, Test};
use crate::error::Result;
use crate::spec::Comparison;

/// Positions in a block of the lowest level: one bit each in a word.
const LEAF: usize = 64;
/// Blocks of one level in a block of the next.
const FAN_OUT: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Zone {
    min: u64,
    max: u64,
}

/// Keys at each sorted position, and zones: level 0 of 64 keys, every further level of 8 zones of the one below.
#[derive(Debug)]
pub(crate) struct ZonedKeys {
    keys: Buffer<u64>,
    levels: Vec<Vec<Zone>>,
    _lease: Lease,
}

pub(super) fn zone_keys(budget: &Arc<Budget>, keys: &Keys, sorted: &Sorted) -> Result<ZonedKeys> {
    let rows = sorted.rows.on_host();
    let keys_lease = budget.lease(rows.len() as u64 * 8, "keys in sorted order")?;
    let zones_lease = budget.lease(rows.len() as u64 / 3 + 64, "zone maps")?;
    let words = keys.values.on_host();
    let ordered: Vec<u64> = rows.iter().map(|row| words[*row as usize]).collect();
    let mut levels = vec![
        ordered
            .chunks(LEAF)
            .map(|block| Zone {
                min: block.iter().copied().min().unwrap_or(u64::MAX),
                max: block.iter().copied().max().unwrap_or(0),
            })
            .collect::<Vec<_>>(),
    ];
    while let Some(below) = levels.last().filter(|level| level.len() > FAN_OUT) {
        let level = below
            .chunks(FAN_OUT)
            .map(|zones| Zone {
                min: zones.iter().map(|z| z.min).min().unwrap_or(u64::MAX),
                max: zones.iter().map(|z| z.max).max().unwrap_or(0),
            })
            .collect();
        levels.push(level);
    }
    Ok(ZonedKeys {
        keys: Buffer::host(ordered, keys_lease),
        levels,
        _lease: zones_lease,
    })
}

/// Matches found together: all positions `lo .. hi`, or those of `base ..` whose bit is set.
pub(super) enum Span {
    All { lo: usize, hi: usize },
    Bits { base: usize, bits: u64 },
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    None,
    Some,
    All,
}

/// Calls `visit` with the matches of one searching row, in ascending position, until it breaks.
#[inline]
pub(super) fn walk(
    matches: &Matches<'_>,
    row: usize,
    visit: &mut impl FnMut(Span) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let lo = matches.ranges.lo.on_host()[row] as usize;
    let hi = matches.ranges.hi.on_host()[row] as usize;
    if lo >= hi {
        return ControlFlow::Continue(());
    }
    let Some((first, _)) = matches.tests.split_first() else {
        return visit(Span::All { lo, hi });
    };
    // A NULL satisfies no comparison.
    if !matches
        .tests
        .iter()
        .all(|test| is_valid(test.searching, row))
    {
        return ControlFlow::Continue(());
    }
    let top = first.sorted.levels.len() - 1;
    let mut at = lo;
    while at < hi {
        // The largest aligned block that begins here and ends inside the range.
        let mut level = None;
        let mut size = LEAF;
        while at % size == 0 && at + size <= hi && level.is_none_or(|l| l < top) {
            level = Some(level.map_or(0, |l| l + 1));
            size *= FAN_OUT;
        }
        match level {
            Some(level) => {
                block(matches.tests, row, level, at, hi, visit)?;
                at += LEAF * FAN_OUT.pow(level as u32);
            }
            None => {
                let end = hi.min(at - at % LEAF + LEAF);
                leaf(matches.tests, row, at, end, visit)?;
                at = end;
            }
        }
    }
    ControlFlow::Continue(())
}

/// A whole block of `level` that begins at position `at`.
fn block(
    tests: &[Test<'_>],
    row: usize,
    level: usize,
    at: usize,
    hi: usize,
    visit: &mut impl FnMut(Span) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let size = LEAF * FAN_OUT.pow(level as u32);
    let mut verdict = Verdict::All;
    for test in tests {
        let zone = test.sorted.levels[level][at / size];
        match judge(test.op, zone, test.searching.values.on_host()[row]) {
            Verdict::None => return ControlFlow::Continue(()),
            Verdict::Some => verdict = Verdict::Some,
            Verdict::All => {}
        }
    }
    if verdict == Verdict::All {
        return visit(Span::All {
            lo: at,
            hi: (at + size).min(hi),
        });
    }
    if level == 0 {
        return leaf(tests, row, at, (at + LEAF).min(hi), visit);
    }
    let child = size / FAN_OUT;
    let end = (at + size).min(hi);
    let mut from = at;
    while from < end {
        block(tests, row, level - 1, from, end, visit)?;
        from += child;
    }
    ControlFlow::Continue(())
}

/// At most 64 positions inside one leaf, key by key.
#[inline]
fn leaf(
    tests: &[Test<'_>],
    row: usize,
    lo: usize,
    hi: usize,
    visit: &mut impl FnMut(Span) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut bits = u64::MAX;
    for test in tests {
        let keys = &test.sorted.keys.on_host()[lo..hi];
        bits &= compare(keys, test.op, test.searching.values.on_host()[row]);
        if bits == 0 {
            return ControlFlow::Continue(());
        }
    }
    visit(Span::Bits { base: lo, bits })
}

/// Bit `i` is set when `keys[i] OP word`.
#[inline]
fn compare(keys: &[u64], op: Comparison, word: u64) -> u64 {
    // One loop for each comparison, so that none branches inside.
    #[inline(always)]
    fn bits(keys: &[u64], holds: impl Fn(u64) -> bool) -> u64 {
        keys.iter()
            .enumerate()
            .fold(0, |bits, (i, key)| bits | u64::from(holds(*key)) << i)
    }
    match op {
        Comparison::Lt => bits(keys, |k| k < word),
        Comparison::LtEq => bits(keys, |k| k <= word),
        Comparison::Gt => bits(keys, |k| k > word),
        Comparison::GtEq => bits(keys, |k| k >= word),
        Comparison::Eq => bits(keys, |k| k == word),
        Comparison::NotEq => bits(keys, |k| k != word),
    }
}

/// What the extremes of a block say about all its keys.
#[inline]
fn judge(op: Comparison, zone: Zone, word: u64) -> Verdict {
    let Zone { min, max } = zone;
    let (all, none) = match op {
        Comparison::Lt => (max < word, min >= word),
        Comparison::LtEq => (max <= word, min > word),
        Comparison::Gt => (min > word, max <= word),
        Comparison::GtEq => (min >= word, max < word),
        Comparison::Eq => (min == word && max == word, word < min || word > max),
        Comparison::NotEq => (word < min || word > max, min == word && max == word),
    };
    match (all, none) {
        (true, _) => Verdict::All,
        (_, true) => Verdict::None,
        _ => Verdict::Some,
    }
}

#[inline]
pub(super) fn is_valid(keys: &Keys, row: usize) -> bool {
    keys.valid.as_ref().is_none_or(|valid| valid.value(row))
}
