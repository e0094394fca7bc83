//! The part of each range of partners that its probe row keeps: the first, the last or the nearest ones.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::host::keys::order_keys::{HostKeys, float_of_word};
use crate::error::{BowtieError, Result};
use crate::ir::partners::{Distance, PartnerLimit, Which};

/// Ranges that one task cuts.
const TASK_ROWS: usize = 1 << 13;

/// The part of each range that its probe row keeps.
pub(crate) fn limit_ranges(
    budget: &Arc<Budget>,
    build: &OrderedRows,
    probe: &OrderedRows,
    ranges: &Ranges,
    centre: Option<&Keys>,
    limit: PartnerLimit,
) -> Result<Ranges> {
    let keys = build.keys.as_ref();
    let keys = keys.ok_or_else(|| BowtieError::Internal("partners without an order".into()))?;
    let keys = keys.on_host()?;
    let centre = centre.map(HostKeys::new).transpose()?;
    if matches!(limit.which, Which::Nearest(_)) && centre.is_none() {
        return Err(BowtieError::Internal("partners near to nothing".into()));
    }
    let positions = ranges.rows();
    let lease_lo = budget.lease(positions as u64 * 4, "ranges of partners")?;
    let lease_hi = budget.lease(positions as u64 * 4, "ranges of partners")?;
    let mut lo = vec![0u32; positions];
    let mut hi = vec![0u32; positions];
    let (from, to) = (ranges.lo.on_host()?, ranges.hi.on_host()?);
    let rows = probe.rows.on_host()?;
    lo.par_chunks_mut(TASK_ROWS)
        .zip(hi.par_chunks_mut(TASK_ROWS))
        .enumerate()
        .for_each(|(task, (lo, hi))| {
            for (i, (lo, hi)) in lo.iter_mut().zip(hi).enumerate() {
                let at = task * TASK_ROWS + i;
                let of_row = from[at] as usize..to[at] as usize;
                let row = rows[at] as usize;
                let near = centre.as_ref().filter(|centre| centre.is_valid(row));
                let kept = kept(keys, of_row, near.map(|centre| centre.words[row]), limit);
                (*lo, *hi) = (kept.start as u32, kept.end as u32);
            }
        });
    Ok(Ranges {
        lo: Buffer::host(lo, lease_lo),
        hi: Buffer::host(hi, lease_hi),
    })
}

/// The part of `range` that is kept of ascending `keys`.
fn kept(
    keys: &[u64],
    range: Range<usize>,
    centre: Option<u64>,
    limit: PartnerLimit,
) -> Range<usize> {
    let most = limit.most as usize;
    if range.len() <= most {
        return range;
    }
    match (limit.which, centre) {
        (Which::Last, _) => {
            let from = range.end - most;
            let ties = match limit.with_ties {
                true => {
                    let before = &keys[range.start..from];
                    before.len() - before.partition_point(|key| *key < keys[from])
                }
                false => 0,
            };
            from - ties..range.end
        }
        (Which::Nearest(distance), Some(centre)) => {
            let near = nearest(keys, range.clone(), centre, most, distance);
            match limit.with_ties {
                true => as_near(keys, range, near, centre, distance),
                false => near,
            }
        }
        // All are equally far from a row without a centre.
        (Which::Nearest(_), None) if limit.with_ties => range,
        (Which::First | Which::Nearest(_), _) => {
            let end = range.start + most;
            let ties = match limit.with_ties {
                true => keys[end..range.end].partition_point(|key| *key <= keys[end - 1]),
                false => 0,
            };
            range.start..end + ties
        }
    }
}

/// The `most` positions of `range`, which has more, whose keys are the closest to `centre`. They are neighbours, since distances fall up to
/// the centre and rise behind it.
fn nearest(
    keys: &[u64],
    range: Range<usize>,
    centre: u64,
    most: usize,
    distance: Distance,
) -> Range<usize> {
    let behind = range.start + keys[range.clone()].partition_point(|key| *key < centre);
    let (mut from, mut to) = (
        behind.saturating_sub(most).max(range.start),
        behind.min(range.end - most),
    );
    // The first position that is no farther than the one behind `most` others.
    while from < to {
        let middle = from + (to - from) / 2;
        match compare(distance, centre, keys[middle], keys[middle + most]).is_gt() {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    from..from + most
}

/// `near`, with the positions of `range` beside it that are no farther than its farthest one.
fn as_near(
    keys: &[u64],
    range: Range<usize>,
    near: Range<usize>,
    centre: u64,
    distance: Distance,
) -> Range<usize> {
    let ends = (keys[near.start], keys[near.end - 1]);
    let farthest = match compare(distance, centre, ends.0, ends.1).is_gt() {
        true => ends.0,
        false => ends.1,
    };
    let is_near = |key: u64| compare(distance, centre, key, farthest).is_le();
    let before = &keys[range.start..near.start];
    let behind = &keys[near.end..range.end];
    let from = range.start + before.partition_point(|key| !is_near(*key));
    from..near.end + behind.partition_point(|key| is_near(*key))
}

/// Compares the distances of two keys from `centre`.
fn compare(distance: Distance, centre: u64, a: u64, b: u64) -> Ordering {
    match distance {
        Distance::Integers => a.abs_diff(centre).cmp(&b.abs_diff(centre)),
        Distance::Floats => {
            let centre = float_of_word(centre);
            let far = |key| (float_of_word(key) - centre).abs();
            far(a).total_cmp(&far(b))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::keys::order_keys::float_word;

    /// The kept keys by sorting all of them.
    fn sorted(keys: &[u64], centre: Option<u64>, limit: PartnerLimit) -> Vec<u64> {
        let mut by: Vec<u64> = keys.to_vec();
        let order = |a: &u64, b: &u64| match (limit.which, centre) {
            (Which::First, _) => a.cmp(b),
            (Which::Last, _) => b.cmp(a),
            (Which::Nearest(distance), Some(centre)) => compare(distance, centre, *a, *b),
            (Which::Nearest(_), None) => Ordering::Equal,
        };
        by.sort_by(order);
        let most = (limit.most as usize).min(by.len());
        let ties = match limit.with_ties && most > 0 {
            true => by[most..]
                .iter()
                .take_while(|key| order(key, &by[most - 1]).is_eq())
                .count(),
            false => 0,
        };
        by.truncate(most + ties);
        by.sort_unstable();
        by
    }

    #[test]
    fn the_kept_partners_are_those_of_a_sort() {
        let mut state = 1u64;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for round in 0..3_000u64 {
            let floats = round % 2 == 0;
            let key = |value: u64| match floats {
                true => float_word(value as f64 - 20.0),
                false => value,
            };
            let mut keys: Vec<u64> = (0..random(40)).map(|_| key(random(30) + 5)).collect();
            keys.sort_unstable();
            let distance = match floats {
                true => Distance::Floats,
                false => Distance::Integers,
            };
            let centre = (random(8) > 0).then(|| key(random(40)));
            for which in [Which::First, Which::Last, Which::Nearest(distance)] {
                for with_ties in [false, true] {
                    let limit = PartnerLimit {
                        most: 1 + random(6) as u32,
                        which,
                        with_ties,
                    };
                    let range = kept(&keys, 0..keys.len(), centre, limit);
                    let expected = sorted(&keys, centre, limit);
                    if let (Which::Nearest(distance), false) = (which, with_ties)
                        && let Some(centre) = centre
                    {
                        // Of equally close keys either may be kept.
                        let far = |keys: &[u64]| {
                            let mut far: Vec<_> = keys
                                .iter()
                                .map(|key| match distance {
                                    Distance::Integers => key.abs_diff(centre),
                                    Distance::Floats => (float_of_word(*key)
                                        - float_of_word(centre))
                                    .abs()
                                    .to_bits(),
                                })
                                .collect();
                            far.sort_unstable();
                            far
                        };
                        assert_eq!(
                            far(&keys[range]),
                            far(&expected),
                            "{keys:?} {centre} {limit:?}"
                        );
                    } else if centre.is_none() && matches!(which, Which::Nearest(_)) {
                        assert_eq!(range.len(), expected.len());
                    } else {
                        assert_eq!(keys[range], expected, "{keys:?} {centre:?} {limit:?}");
                    }
                }
            }
        }
    }
}
