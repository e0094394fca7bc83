//! Counts matches, scans the counts, and writes the row ids of each output batch to the positions that the scan gives.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::Matches;
use crate::device::data::ranges::Pairs;
use crate::device::data::results::{Counted, Counter};
use crate::device::host::theta::pair_program;
use crate::device::host::theta::zone_map::{HostMatches, LEAF, Span, bits_of, walk};
use crate::error::{BowtieError, Result};

/// Groups of probe rows that one task counts.
const TASK_GROUPS: usize = 16;

/// Probe rows that one task counts with a pair program and without tests.
const UNTESTED_TASK: usize = 8;

/// Matches, and probe rows, that one task expands. Rows of one group stay together.
const TASK_MATCHES: u64 = 1 << 15;
const TASK_POSITIONS: usize = 64 * LEAF;

/// The mean number of matches above which rows are expanded one by one, each with consecutive writes.
const LONG_ROW: u64 = 256;

/// The number of candidates that pass all tests and the program, for each probe position; with `exists_only`, 1 or 0.
pub(crate) fn count_matches(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    exists_only: bool,
    cancelled: &AtomicBool,
) -> Result<Counted> {
    if matches.program.is_none()
        && let Some(counted) = crate::device::host::theta::choose_count::count_matches(
            budget,
            matches,
            exists_only,
            cancelled,
        )?
    {
        return Ok(counted);
    }
    let lease = budget.lease(matches.ranges.rows() as u64 * 4, "match counts")?;
    let found = HostMatches::new(&matches)?;
    let (lo, hi) = (found.lo, found.hi);
    if matches.tests.is_empty() && matches.program.is_none() {
        let count = |(lo, hi): (&u32, &u32)| match exists_only {
            true => u32::from(lo < hi),
            false => hi - lo,
        };
        let counts = lo.par_iter().zip(hi).with_min_len(1 << 14).map(count);
        return Ok(Counter::Ranges.of(Buffer::host(counts.collect(), lease)));
    }
    let program = matches.program.map(pair_program::Bound::new).transpose()?;
    // The program may run on every candidate, so tasks are short.
    let task_rows = match (&program, matches.tests.is_empty()) {
        (None, _) => TASK_GROUPS * LEAF,
        (Some(_), false) => LEAF,
        (Some(_), true) => UNTESTED_TASK,
    };
    let mut counts = vec![0u32; matches.ranges.rows()];
    counts
        .par_chunks_mut(task_rows)
        .enumerate()
        .try_for_each_init(
            || program.as_ref().map(pair_program::Bound::scratch),
            |scratch, (task, counts)| {
                let first = task * task_rows;
                let rows = first..first + counts.len();
                let mut count = |row: usize, span: Span| {
                    let count = &mut counts[row - first];
                    *count += match span {
                        Span::All(positions) => positions.len() as u32,
                        Span::Bits { bits, .. } => bits.count_ones(),
                    };
                    *count = if exists_only { 1 } else { *count };
                    !exists_only
                };
                for group in rows.start / LEAF..rows.end.div_ceil(LEAF) {
                    if cancelled.load(Ordering::Relaxed) {
                        return Err(BowtieError::Cancelled);
                    }
                    let wanted = rows_of(group, &rows);
                    match (&program, &mut *scratch) {
                        (Some(program), Some(scratch)) => {
                            program.walk(scratch, &found, group, wanted, cancelled, &mut count)?;
                        }
                        _ => walk(&found, group, wanted, &mut count),
                    }
                }
                Ok(())
            },
        )?;
    let by = match matches.program {
        Some(_) => Counter::Program,
        None => Counter::Walk,
    };
    Ok(by.of(Buffer::host(counts, lease)))
}

/// The bits of a group's rows that are in `rows`.
fn rows_of(group: usize, rows: &Range<usize>) -> u64 {
    let first = group * LEAF;
    let begin = rows.start.saturating_sub(first);
    let end = rows.end.saturating_sub(first).min(LEAF);
    (u64::MAX >> (LEAF - (end - begin))) << begin
}

/// Exclusive prefix sums, one more than `counts`; the last one is the total.
pub(crate) fn scan(budget: &Arc<Budget>, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
    let lease = budget.lease((counts.len() as u64 + 1) * 8, "match offsets")?;
    let mut offsets = Vec::with_capacity(counts.len() + 1);
    let mut total = 0u64;
    offsets.push(0);
    for count in counts.on_host()?.iter() {
        // At most 2^32 rows with at most 2^32 matches each: no overflow.
        total += u64::from(*count);
        offsets.push(total);
    }
    Ok(Buffer::host(offsets, lease))
}

/// The end of an output batch that begins at match `from`: see `ThetaPrimitives::piece_end`.
pub(crate) fn piece_end(offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64> {
    let offsets = offsets.on_host()?;
    // The last end of a row's matches at or before the target.
    let at = offsets.partition_point(|offset| *offset <= from + target);
    let end = offsets[at.max(1) - 1];
    Ok(match end > from {
        true => end,
        // The row's matches exceed the target: to their end, or to the most allowed.
        false => offsets[at.min(offsets.len() - 1)].min(from + most.max(target)),
    })
}

/// The matches numbered `from .. from + len` in the order (probe position, build position).
pub(crate) fn expand(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    offsets: &Buffer<u64>,
    (from, len): (u64, usize),
    cancelled: &AtomicBool,
) -> Result<Pairs> {
    let probe_lease = budget.lease(len as u64 * 4, "join output rows")?;
    let build_lease = budget.lease(len as u64 * 4, "join output rows")?;
    let found = HostMatches::new(&matches)?;
    let program = matches.program.map(pair_program::Bound::new).transpose()?;
    let window = Window {
        matches: &found,
        is_tested: !matches.tests.is_empty() || program.is_some(),
        offsets: offsets.on_host()?,
        from,
        to: from + len as u64,
    };
    let mut probe = vec![0u32; len];
    let mut build = vec![0u32; len];
    let written = window
        .tasks(&mut probe, &mut build)
        .into_par_iter()
        .map_init(
            || program.as_ref().map(|program| (program, program.scratch())),
            |filter, task| task.run(filter, cancelled),
        )
        .try_reduce(|| 0, |a, b| Ok(a + b))?;
    if written != len {
        return Err(BowtieError::Internal(format!(
            "{written} matches written where {len} were counted"
        )));
    }
    Ok(Pairs {
        probe: Buffer::host(probe, probe_lease),
        build: Buffer::host(build, build_lease),
    })
}

/// The matches numbered `from .. to`.
#[derive(Clone, Copy)]
struct Window<'a> {
    matches: &'a HostMatches<'a>,
    /// Whether candidates are tested; otherwise all of a row's range are matches.
    is_tested: bool,
    offsets: &'a [u64],
    from: u64,
    to: u64,
}

/// The matches of some probe positions of a window, and where their rows are written.
struct Task<'a> {
    window: Window<'a>,
    positions: Range<usize>,
    probe: &'a mut [u32],
    build: &'a mut [u32],
}

type Filter<'a> = Option<(&'a pair_program::Bound<'a>, pair_program::Scratch)>;

impl<'a> Window<'a> {
    /// The probe positions with matches in the window; some of them may have none.
    fn positions(&self) -> Range<usize> {
        let first = self
            .offsets
            .partition_point(|offset| *offset <= self.from)
            .max(1)
            - 1;
        let end = self.offsets.partition_point(|offset| *offset < self.to);
        first..end.min(self.offsets.len() - 1)
    }

    /// The numbers of a position's matches inside the window.
    fn of(&self, position: usize) -> (u64, u64) {
        let first = self.offsets[position].max(self.from);
        (first, self.offsets[position + 1].min(self.to).max(first))
    }

    /// Cuts the window, and the space for its matches.
    fn tasks(&self, mut probe: &'a mut [u32], mut build: &'a mut [u32]) -> Vec<Task<'a>> {
        let all = self.positions();
        let mut tasks = vec![];
        let mut begin = all.start;
        while begin < all.end {
            let from = self.offsets[begin].max(self.from);
            let enough = from + TASK_MATCHES;
            let of_matches = self.offsets.partition_point(|offset| *offset < enough);
            let end = of_matches.min(begin + TASK_POSITIONS).max(begin + 1);
            let end = end.next_multiple_of(LEAF).min(all.end);
            let to = self.offsets[end].clamp(from, self.to);
            let (probe_rows, build_rows);
            (probe_rows, probe) = probe.split_at_mut((to - from) as usize);
            (build_rows, build) = build.split_at_mut((to - from) as usize);
            tasks.push(Task {
                window: Window { from, to, ..*self },
                positions: begin..end,
                probe: probe_rows,
                build: build_rows,
            });
            begin = end;
        }
        tasks
    }
}

impl Task<'_> {
    /// Writes the rows, and returns how many.
    fn run(self, filter: &mut Filter<'_>, cancelled: &AtomicBool) -> Result<usize> {
        let Self {
            window,
            positions,
            probe,
            build,
        } = self;
        let mut begin = 0;
        for position in positions.clone() {
            let (first, end) = window.of(position);
            let end = begin + (end - first) as usize;
            probe[begin..end].fill(window.matches.probe[position]);
            begin = end;
        }
        match window.is_tested {
            false => Ok(window.copy_ranges(positions, build)),
            true => window.walk_ranges(positions, filter, cancelled, build),
        }
    }
}

impl Window<'_> {
    fn copy_ranges(&self, positions: Range<usize>, out: &mut [u32]) -> usize {
        let (ids, lo) = (self.matches.build, self.matches.lo);
        let mut written = 0;
        for position in positions {
            let (first, end) = self.of(position);
            let len = (end - first) as usize;
            let at = lo[position] as usize + (first - self.offsets[position]) as usize;
            out[written..written + len].copy_from_slice(&ids[at..at + len]);
            written += len;
        }
        written
    }

    fn walk_ranges(
        &self,
        rows: Range<usize>,
        filter: &mut Filter<'_>,
        cancelled: &AtomicBool,
        out: &mut [u32],
    ) -> Result<usize> {
        let mut written = 0;
        for group in rows.start / LEAF..rows.end.div_ceil(LEAF) {
            let positions = (group * LEAF).max(rows.start)..((group + 1) * LEAF).min(rows.end);
            let mut wanted = 0u64;
            for position in positions.clone() {
                let (first, end) = self.of(position);
                wanted |= u64::from(end > first) << (position - group * LEAF);
            }
            if wanted == 0 {
                continue;
            }
            let pairs = self.offsets[positions.end].min(self.to)
                - self.offsets[positions.start].max(self.from);
            match pairs > LONG_ROW * u64::from(wanted.count_ones()) {
                true => {
                    for row in bits_of(wanted) {
                        written += self.walk_group(group, 1 << row, filter, cancelled, out)?;
                    }
                }
                false => written += self.walk_group(group, wanted, filter, cancelled, out)?,
            }
        }
        Ok(written)
    }

    /// Writes the matches of some rows of a group. `next` holds the number of each row's next match.
    fn walk_group(
        &self,
        group: usize,
        rows: u64,
        filter: &mut Filter<'_>,
        cancelled: &AtomicBool,
        out: &mut [u32],
    ) -> Result<usize> {
        let ids = self.matches.build;
        let first = group * LEAF;
        let last = (first + LEAF).min(self.offsets.len() - 1);
        let mut next = [0u64; LEAF];
        next[..last - first].copy_from_slice(&self.offsets[first..last]);
        let mut written = 0;
        let take = |position: usize, span: Span| {
            let number = &mut next[position - first];
            let mut put = |position: usize| {
                if *number >= self.from && *number < self.to {
                    out[(*number - self.from) as usize] = ids[position];
                    written += 1;
                }
                *number += 1;
            };
            match span {
                Span::All(positions) => positions.for_each(&mut put),
                Span::Bits { base, bits } => bits_of(bits).for_each(|bit| put(base + bit)),
            }
            *number < self.to
        };
        match filter {
            Some((program, scratch)) => {
                program.walk(scratch, self.matches, group, rows, cancelled, take)?;
            }
            None => walk(self.matches, group, rows, take),
        }
        Ok(written)
    }
}
