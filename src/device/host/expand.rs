//! Counting and expanding matches: count exactly, scan, then write each piece of pairs at its place.

use std::ops::ControlFlow;
use std::sync::Arc;

use rayon::prelude::*;

use super::zones::{Span, walk};
use crate::device::Matches;
use crate::device::budget::Budget;
use crate::device::buffer::{Buffer, Pairs};
use crate::error::{BowtieError, Result};

/// Rows that one task counts.
const TASK_ROWS: usize = 1 << 10;

pub(super) fn count_matches(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    exists_only: bool,
) -> Result<Buffer<u32>> {
    let lease = budget.lease(matches.ranges.rows() as u64 * 4, "match counts")?;
    let mut counts = vec![0u32; matches.ranges.rows()];
    counts
        .par_chunks_mut(TASK_ROWS)
        .enumerate()
        .for_each(|(task, counts)| {
            for (i, count) in counts.iter_mut().enumerate() {
                let _ = walk(&matches, task * TASK_ROWS + i, &mut |span| {
                    *count += match span {
                        Span::All { lo, hi } => (hi - lo) as u32,
                        Span::Bits { bits, .. } => bits.count_ones(),
                    };
                    if exists_only && *count > 0 {
                        *count = 1;
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                });
            }
        });
    Ok(Buffer::host(counts, lease))
}

pub(super) fn scan(budget: &Arc<Budget>, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
    let lease = budget.lease((counts.len() as u64 + 1) * 8, "match offsets")?;
    let mut offsets = Vec::with_capacity(counts.len() + 1);
    let mut total = 0u64;
    offsets.push(0);
    for count in counts.on_host().iter() {
        // At most 2^32 rows of at most 2^32 matches each: no overflow.
        total += u64::from(*count);
        offsets.push(total);
    }
    Ok(Buffer::host(offsets, lease))
}

pub(super) fn expand(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    offsets: &Buffer<u64>,
    from: u64,
    len: usize,
) -> Result<Pairs> {
    let searching_lease = budget.lease(len as u64 * 4, "output pairs")?;
    let sorted_lease = budget.lease(len as u64 * 4, "output pairs")?;
    let offsets = offsets.on_host();
    let rows = matches.sorted.rows.on_host();
    let mut searching = Vec::with_capacity(len);
    let mut sorted: Vec<u32> = Vec::with_capacity(len);
    // The last row whose first pair is not after `from`.
    let mut row = offsets.partition_point(|offset| *offset <= from).max(1) - 1;
    let mut skip = (from - offsets[row]) as usize;
    while sorted.len() < len && row < matches.ranges.rows() {
        if offsets[row + 1] > offsets[row] {
            let _ = walk(&matches, row, &mut |span| {
                let room = len - sorted.len();
                match span {
                    Span::All { lo, hi } => {
                        let skipped = skip.min(hi - lo);
                        skip -= skipped;
                        let lo = lo + skipped;
                        sorted.extend_from_slice(&rows[lo..hi.min(lo + room)]);
                    }
                    Span::Bits { base, mut bits } => {
                        while skip > 0 && bits != 0 {
                            bits &= bits - 1;
                            skip -= 1;
                        }
                        let mut room = room;
                        while bits != 0 && room > 0 {
                            sorted.push(rows[base + bits.trailing_zeros() as usize]);
                            bits &= bits - 1;
                            room -= 1;
                        }
                    }
                }
                match sorted.len() < len {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            searching.resize(sorted.len(), row as u32);
        }
        row += 1;
    }
    if sorted.len() != len {
        return Err(BowtieError::Internal(format!(
            "{} pairs where {len} were counted",
            sorted.len()
        )));
    }
    Ok(Pairs {
        searching: Buffer::host(searching, searching_lease),
        sorted: Buffer::host(sorted, sorted_lease),
    })
}
