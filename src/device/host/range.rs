//! Sorted bounds: where in the sorted side each searching row's matches begin and end; and the rows that ranges cover.

use std::sync::Arc;

use rayon::prelude::*;

use super::zones::is_valid;
use crate::device::budget::Budget;
use crate::device::buffer::{Buffer, Ranges, Sorted};
use crate::device::{Bound, NO_GROUP};
use crate::error::{BowtieError, Result};
use crate::spec::Comparison;

/// Rows that one task searches.
const TASK_ROWS: usize = 1 << 14;

pub(super) fn range_bounds(
    budget: &Arc<Budget>,
    sorted: &Sorted,
    bounds: &[Bound<'_>],
    groups: Option<&Buffer<u32>>,
    rows: usize,
) -> Result<Ranges> {
    if sorted.keys.is_none() && !bounds.is_empty() {
        return Err(BowtieError::Internal("bounds on an unsorted side".into()));
    }
    let lease_lo = budget.lease(rows as u64 * 4, "range bounds")?;
    let lease_hi = budget.lease(rows as u64 * 4, "range bounds")?;
    let mut lo = vec![0u32; rows];
    let mut hi = vec![0u32; rows];
    lo.par_chunks_mut(TASK_ROWS)
        .zip(hi.par_chunks_mut(TASK_ROWS))
        .enumerate()
        .for_each(|(task, (lo, hi))| {
            let first = task * TASK_ROWS;
            for (i, (lo, hi)) in lo.iter_mut().zip(hi).enumerate() {
                (*lo, *hi) = range_of(sorted, bounds, groups, first + i);
            }
        });
    Ok(Ranges {
        lo: Buffer::host(lo, lease_lo),
        hi: Buffer::host(hi, lease_hi),
    })
}

fn range_of(
    sorted: &Sorted,
    bounds: &[Bound<'_>],
    groups: Option<&Buffer<u32>>,
    row: usize,
) -> (u32, u32) {
    let (mut lo, mut hi) = match (&sorted.segments, groups) {
        (Some(segments), Some(groups)) => match groups.on_host()[row] {
            NO_GROUP => return (0, 0),
            g => {
                let segments = segments.on_host();
                (
                    segments[g as usize] as usize,
                    segments[g as usize + 1] as usize,
                )
            }
        },
        _ => (0, sorted.len()),
    };
    for bound in bounds {
        if !is_valid(bound.searching, row) {
            return (0, 0);
        }
        let word = bound.searching.values.on_host()[row];
        let Some(keys) = &sorted.keys else {
            return (0, 0);
        };
        let keys = &keys.on_host()[lo..hi];
        let below = || keys.partition_point(|k| *k < word);
        let through = || keys.partition_point(|k| *k <= word);
        let (from, to) = match bound.op {
            Comparison::Lt => (0, below()),
            Comparison::LtEq => (0, through()),
            Comparison::Gt => (through(), keys.len()),
            Comparison::GtEq => (below(), keys.len()),
            Comparison::Eq => (below(), through()),
            // Not one range: never a bound.
            Comparison::NotEq => (0, keys.len()),
        };
        (lo, hi) = (lo + from, lo + to);
        if lo >= hi {
            return (0, 0);
        }
    }
    (lo as u32, hi as u32)
}

pub(super) fn cover(
    budget: &Arc<Budget>,
    sorted: &Sorted,
    ranges: &Ranges,
    rows: usize,
) -> Result<Buffer<u32>> {
    let _scratch = budget.lease(sorted.len() as u64 * 4 + 4, "coverage scratch")?;
    let lease = budget.lease(rows as u64 * 4, "coverage")?;
    // A difference array; its prefix sums stay between 0 and the number of ranges, so wrapping steps cannot mislead.
    let mut steps = vec![0u32; sorted.len() + 1];
    for (lo, hi) in ranges.lo.on_host().iter().zip(ranges.hi.on_host().iter()) {
        steps[*lo as usize] = steps[*lo as usize].wrapping_add(1);
        steps[*hi as usize] = steps[*hi as usize].wrapping_sub(1);
    }
    let mut counts = vec![0u32; rows];
    let mut covering = 0u32;
    for (row, step) in sorted.rows.on_host().iter().zip(&steps) {
        covering = covering.wrapping_add(*step);
        counts[*row as usize] = covering;
    }
    Ok(Buffer::host(counts, lease))
}
