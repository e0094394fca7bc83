//! Range search: where the matches of each probe row begin and end in the sorted build side; and the build rows that
//! ranges cover.

use std::sync::Arc;

use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::keys::NO_GROUP;
use crate::device::data::matches::Bound;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::host::keys::order_keys::HostKeys;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// Positions that one task searches.
const TASK_ROWS: usize = 1 << 13;

/// For each row of `probe`, the build positions of its group that satisfy all bounds.
pub(crate) fn range_bounds(
    budget: &Arc<Budget>,
    build: &OrderedRows,
    probe: &OrderedRows,
    bounds: &[Bound<'_>],
    groups: Option<&Buffer<u32>>,
) -> Result<Ranges> {
    if build.keys.is_none() && !bounds.is_empty() {
        return Err(BowtieError::Internal(
            "bounds on an unsorted build side".into(),
        ));
    }
    let search = Search::new(build, bounds, groups)?;
    let positions = probe.len();
    let lease_lo = budget.lease(positions as u64 * 4, "range bounds")?;
    let lease_hi = budget.lease(positions as u64 * 4, "range bounds")?;
    let mut lo = vec![0u32; positions];
    let mut hi = vec![0u32; positions];
    let rows = probe.rows.on_host()?;
    // Probe rows are in the order of groups and keys, so each search begins where the previous one ended; or in that of keys, so it begins
    // where the previous one of its group ended.
    let of_groups = match (&search.groups, &probe.segments) {
        (Some((segments, _)), None) => segments.len(),
        _ => 1,
    };
    let task_rows = match of_groups {
        1 => TASK_ROWS,
        _ => positions
            .div_ceil(rayon::current_num_threads())
            .max(TASK_ROWS),
    };
    lo.par_chunks_mut(task_rows)
        .zip(hi.par_chunks_mut(task_rows))
        .zip(rows.par_chunks(task_rows))
        .for_each(|((lo, hi), rows)| {
            let mut hints = vec![Hint::default(); bounds.len() * of_groups];
            for ((lo, hi), row) in lo.iter_mut().zip(hi).zip(rows) {
                let row = *row as usize;
                let hints = match of_groups {
                    1 => &mut hints[..],
                    _ => {
                        let at = search.group(row) * bounds.len();
                        &mut hints[at..at + bounds.len()]
                    }
                };
                (*lo, *hi) = search.range_of(row, hints);
            }
        });
    Ok(Ranges {
        lo: Buffer::host(lo, lease_lo),
        hi: Buffer::host(hi, lease_hi),
    })
}

/// Where the previous searches ended: behind the keys below a word, and behind those up to it.
#[derive(Debug, Clone, Copy, Default)]
struct Hint {
    below: u32,
    through: u32,
}

/// The inputs of every row's search, as slices.
struct Search<'a> {
    /// Keys of the build side; empty without bounds.
    keys: &'a [u64],
    positions: usize,
    /// Where the groups of the build side begin, and the group of each probe row.
    groups: Option<(&'a [u32], &'a [u32])>,
    bounds: Vec<(Comparison, HostKeys<'a>)>,
}

impl<'a> Search<'a> {
    fn new(
        build: &'a OrderedRows,
        bounds: &[Bound<'a>],
        groups: Option<&'a Buffer<u32>>,
    ) -> Result<Self> {
        Ok(Self {
            keys: match &build.keys {
                Some(keys) => keys.on_host()?,
                None => &[],
            },
            positions: build.len(),
            groups: match (&build.segments, groups) {
                (Some(segments), Some(groups)) => Some((segments.on_host()?, groups.on_host()?)),
                _ => None,
            },
            bounds: bounds
                .iter()
                .map(|bound| Ok((bound.op, HostKeys::new(bound.probe)?)))
                .collect::<Result<_>>()?,
        })
    }

    /// The group of a probe row; that of a row without one is the last.
    fn group(&self, row: usize) -> usize {
        self.groups.map_or(0, |(segments, groups)| {
            (groups[row] as usize).min(segments.len() - 1)
        })
    }

    fn range_of(&self, row: usize, hints: &mut [Hint]) -> (u32, u32) {
        let (first, end) = match self.groups {
            Some((segments, groups)) => match groups[row] {
                NO_GROUP => return (0, 0),
                g => (
                    segments[g as usize] as usize,
                    segments[g as usize + 1] as usize,
                ),
            },
            None => (0, self.positions),
        };
        let (mut lo, mut hi) = (first, end);
        for ((op, probe), hint) in self.bounds.iter().zip(hints) {
            let keys = &self.keys[first..end];
            if !probe.is_valid(row) {
                return (0, 0);
            }
            let word = probe.words[row];
            let below = |hint: &mut Hint| {
                let from = (hint.below as usize).saturating_sub(first);
                let at = first + seek(keys, from, |k| k < word);
                hint.below = at as u32;
                at
            };
            let through = |hint: &mut Hint| {
                let from = (hint.through as usize).saturating_sub(first);
                let at = first + seek(keys, from, |k| k <= word);
                hint.through = at as u32;
                at
            };
            match op {
                Comparison::Lt => hi = hi.min(below(hint)),
                Comparison::LtEq => hi = hi.min(through(hint)),
                Comparison::Gt => lo = lo.max(through(hint)),
                Comparison::GtEq => lo = lo.max(below(hint)),
                Comparison::Eq => (lo, hi) = (lo.max(below(hint)), hi.min(through(hint))),
                // The matches of `<>` are not one range: it is never a bound.
                Comparison::NotEq => {}
            }
        }
        match lo < hi {
            true => (lo as u32, hi as u32),
            false => (0, 0),
        }
    }
}

/// The number of leading keys that satisfy `holds`; no later key does. Gallops from `hint`, so that a close hint is
/// cheap.
pub(crate) fn seek(keys: &[u64], hint: usize, holds: impl Fn(u64) -> bool) -> usize {
    let hint = hint.min(keys.len());
    let mut step = 1;
    let (mut from, mut to);
    if hint < keys.len() && holds(keys[hint]) {
        // The result is after the hint.
        from = hint + 1;
        to = keys.len();
        while from + step < keys.len() {
            if !holds(keys[from + step]) {
                to = from + step;
                break;
            }
            from += step + 1;
            step *= 2;
        }
    } else {
        from = 0;
        to = hint;
        while to >= step {
            if holds(keys[to - step]) {
                from = to - step + 1;
                break;
            }
            to -= step;
            step *= 2;
        }
    }
    from = from.min(to);
    from + keys[from..to].partition_point(|k| holds(*k))
}

/// The counts of probe positions by row id; 0 for rows that are not in `probe`.
pub(crate) fn row_counts(
    budget: &Arc<Budget>,
    probe: &OrderedRows,
    counts: &Buffer<u32>,
    rows: usize,
) -> Result<Buffer<u32>> {
    let lease = budget.lease(rows as u64 * 4, "counts by row")?;
    let mut by_row = vec![0u32; rows];
    for (row, count) in probe.rows.on_host()?.iter().zip(counts.on_host()?) {
        by_row[*row as usize] = *count;
    }
    Ok(Buffer::host(by_row, lease))
}

/// The number of ranges that cover each of `rows` build rows.
pub(crate) fn cover(
    budget: &Arc<Budget>,
    build: &OrderedRows,
    ranges: &Ranges,
    rows: usize,
) -> Result<Buffer<u32>> {
    let _scratch = budget.lease(build.len() as u64 * 4 + 4, "coverage scratch")?;
    let lease = budget.lease(rows as u64 * 4, "coverage")?;
    // A difference array. Its prefix sums are between 0 and the number of ranges, so wrapping steps are correct.
    let mut steps = vec![0u32; build.len() + 1];
    for (lo, hi) in ranges.lo.on_host()?.iter().zip(ranges.hi.on_host()?) {
        steps[*lo as usize] = steps[*lo as usize].wrapping_add(1);
        steps[*hi as usize] = steps[*hi as usize].wrapping_sub(1);
    }
    let mut counts = vec![0u32; rows];
    let mut covering = 0u32;
    for (row, step) in build.rows.on_host()?.iter().zip(&steps) {
        covering = covering.wrapping_add(*step);
        counts[*row as usize] = covering;
    }
    Ok(Buffer::host(counts, lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seek_finds_the_partition_point_from_any_hint() {
        for n in 0..70usize {
            let keys: Vec<u64> = (0..n as u64).map(|k| k / 3 * 2).collect();
            for word in 0..50 {
                let expected = keys.partition_point(|k| *k < word);
                for hint in 0..=n + 1 {
                    assert_eq!(
                        seek(&keys, hint, |k| k < word),
                        expected,
                        "{n} {word} {hint}"
                    );
                }
            }
        }
    }
}
