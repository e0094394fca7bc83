//! Sorts row ids by group and key: a least-significant-digit radix sort that skips digits on which all keys agree.

use std::sync::Arc;

use arrow::buffer::BooleanBuffer;

use crate::device::budget::Budget;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::keys::{Keys, NO_GROUP};
use crate::device::data::ranges::OrderedRows;
use crate::device::host::keys::sort_parts::{SortRow, sorted};
use crate::error::Result;

/// With fewer rows a comparison sort is faster.
const RADIX_FROM: usize = 1 << 10;
/// Rows of a group, on average, from which on it pays to remember where the last one was found.
const ROWS_OF_GROUP: usize = 16;
/// From this number of rows on all cores sort.
const PARTS_FROM: usize = 1 << 17;
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;

/// A row id with its key.
#[derive(Clone, Copy)]
pub(crate) struct KeyedRow {
    pub(crate) key: u64,
    pub(crate) row: u32,
}

impl KeyedRow {
    pub(crate) fn new((row, key): (u32, &u64)) -> Self {
        Self { key: *key, row }
    }
}

/// Sorts row ids by group (`groups`: the group of each row, and their number), then by key, then by row id. Rows
/// without a group, with a NULL key or with a NULL in any of `not_null` are removed.
pub(crate) fn sort(
    budget: &Arc<Budget>,
    rows: usize,
    key: Option<&Keys>,
    groups: Option<(&Buffer<u32>, u32)>,
    not_null: &[&Keys],
) -> Result<OrderedRows> {
    check_chunk_rows(rows)?;
    // Parts are dealt out, and two copies of each are sorted.
    let scratch = if rows >= PARTS_FROM { 56 } else { 32 };
    let _scratch = budget.lease(rows as u64 * scratch, "sort scratch")?;
    let rows_lease = budget.lease(rows as u64 * 4, "sorted rows")?;
    let keys_lease = budget.lease(rows as u64 * 8, "sorted keys")?;

    let mut valid: Option<BooleanBuffer> = None;
    for keys in key.into_iter().chain(not_null.iter().copied()) {
        if let Some(of_keys) = &keys.valid {
            let of_keys = of_keys.on_host()?;
            valid = Some(match valid {
                Some(valid) => &valid & of_keys,
                None => of_keys.clone(),
            });
        }
    }
    let group_of = groups.map(|(ids, _)| ids.on_host()).transpose()?;
    let kept = |row: &usize| {
        valid.as_ref().is_none_or(|valid| valid.value(*row))
            && group_of.is_none_or(|ids| ids[*row] != NO_GROUP)
    };
    if rows >= PARTS_FROM {
        let words = key.map(|keys| keys.values.on_host()).transpose()?;
        let row_at = |row: usize| {
            kept(&row).then(|| SortRow {
                key: words.map_or(0, |words| words[row]),
                group: group_of.map_or(0, |ids| ids[row]),
                row: row as u32,
            })
        };
        let sorted = sorted(rows, row_at, key.is_some());
        let segments = match groups {
            None => None,
            Some((_, groups)) => {
                let lease = budget.lease((u64::from(groups) + 1) * 4, "segments")?;
                Some(Buffer::host(segments(&sorted.groups, groups), lease))
            }
        };
        return Ok(OrderedRows {
            rows: Buffer::host(sorted.rows, rows_lease),
            keys: key.map(|_| Buffer::host(sorted.keys, keys_lease)),
            segments,
        });
    }
    let mut keyed: Vec<KeyedRow> = match key {
        Some(keys) => {
            let words = keys.values.on_host()?;
            (0..rows)
                .filter(kept)
                .map(|row| KeyedRow {
                    key: words[row],
                    row: row as u32,
                })
                .collect()
        }
        None => (0..rows)
            .filter(kept)
            .map(|row| KeyedRow {
                key: 0,
                row: row as u32,
            })
            .collect(),
    };
    if key.is_some() {
        sort_by_key(&mut keyed);
    }

    let segments = match groups {
        None => None,
        Some((ids, groups)) => {
            let lease = budget.lease((u64::from(groups) + 1) * 4, "segments")?;
            let (ordered, segments) = by_group(&keyed, ids.on_host()?, groups as usize);
            keyed = ordered;
            Some(Buffer::host(segments, lease))
        }
    };
    Ok(OrderedRows {
        rows: Buffer::host(keyed.iter().map(|k| k.row).collect(), rows_lease),
        keys: key.map(|_| Buffer::host(keyed.iter().map(|k| k.key).collect(), keys_lease)),
        segments,
    })
}

/// Whether keys ascend by row, and groups are so few that searches remember for each where the last one ended.
pub(crate) fn ascends(
    rows: usize,
    key: Option<&Keys>,
    groups: Option<(&Buffer<u32>, u32)>,
) -> Result<bool> {
    let few = groups.is_none_or(|(_, groups)| groups as usize <= rows / ROWS_OF_GROUP);
    match key {
        Some(key) if few && key.valid.is_none() => Ok(key.values.on_host()?.is_sorted()),
        _ => Ok(false),
    }
}

/// All rows in the order of their ids.
pub(crate) fn by_row(budget: &Arc<Budget>, rows: usize) -> Result<OrderedRows> {
    check_chunk_rows(rows)?;
    let lease = budget.lease(rows as u64 * 4, "rows")?;
    Ok(OrderedRows::of_rows(Buffer::host(
        (0..rows as u32).collect(),
        lease,
    )))
}

/// Where each of `groups` groups begins, of which those with rows are counted in ascending order.
fn segments(counts: &[(u32, u32)], groups: u32) -> Vec<u32> {
    let mut segments = vec![0; groups as usize + 1];
    for (group, rows) in counts {
        segments[*group as usize + 1] += rows;
    }
    for group in 0..groups as usize {
        segments[group + 1] += segments[group];
    }
    segments
}

/// Sorts by key; stable, so that rows with equal keys keep their order of row ids.
pub(crate) fn sort_by_key(keyed: &mut Vec<KeyedRow>) {
    if keyed.len() < RADIX_FROM {
        keyed.sort_unstable_by_key(|k| (k.key, k.row));
        return;
    }
    let first = keyed[0].key;
    let varying = keyed.iter().fold(0u64, |bits, k| bits | (k.key ^ first));
    let mut from = std::mem::take(keyed);
    let mut to = vec![KeyedRow { key: 0, row: 0 }; from.len()];
    for shift in (0..u64::BITS).step_by(DIGIT_BITS as usize) {
        if (varying >> shift) & (DIGITS as u64 - 1) == 0 {
            continue;
        }
        let digit = |k: &KeyedRow| (k.key >> shift) as usize & (DIGITS - 1);
        let mut place = [0usize; DIGITS];
        for k in &from {
            place[digit(k)] += 1;
        }
        let mut start = 0;
        for p in &mut place {
            start += std::mem::replace(p, start);
        }
        for k in &from {
            let p = &mut place[digit(k)];
            to[*p] = *k;
            *p += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    *keyed = from;
}

/// A stable counting sort by group. Returns the rows and where each group begins.
fn by_group(keyed: &[KeyedRow], group_of: &[u32], groups: usize) -> (Vec<KeyedRow>, Vec<u32>) {
    let mut segments = vec![0u32; groups + 1];
    for k in keyed {
        segments[group_of[k.row as usize] as usize + 1] += 1;
    }
    for g in 0..groups {
        segments[g + 1] += segments[g];
    }
    let mut place = segments.clone();
    let mut ordered = vec![KeyedRow { key: 0, row: 0 }; keyed.len()];
    for k in keyed {
        let p = &mut place[group_of[k.row as usize] as usize];
        ordered[*p as usize] = *k;
        *p += 1;
    }
    (ordered, segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radix_and_comparison_sort_agree_and_are_stable() {
        for n in [
            0usize,
            1,
            2,
            RADIX_FROM - 1,
            RADIX_FROM,
            RADIX_FROM + 1,
            5000,
        ] {
            let mut word = 12345u64;
            let rows: Vec<KeyedRow> = (0..n)
                .map(|row| {
                    word = word
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    let key = ((word >> 61) << 60) | ((word >> 33) % 7);
                    KeyedRow {
                        key,
                        row: row as u32,
                    }
                })
                .collect();
            let mut expected: Vec<(u64, u32)> = rows.iter().map(|k| (k.key, k.row)).collect();
            expected.sort();
            let mut sorted = rows;
            sort_by_key(&mut sorted);
            let sorted: Vec<(u64, u32)> = sorted.iter().map(|k| (k.key, k.row)).collect();
            assert_eq!(sorted, expected);
        }
    }
}
