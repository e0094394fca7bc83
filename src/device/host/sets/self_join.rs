//! Self joins: if both sides are the same sets, a technique tests each pair once, and a match holds in both directions.
//!
//! Both sides are ordered by group and size, so a pair is tested at positions `at ≤ position`. Every predicate but
//! containment is symmetric. No set contains a larger one, which the length filter excludes; of two sets of equal size,
//! either each contains the other or neither does.

use std::ops::Range;

use crate::device::host::pace::{CancelCheck, Pace};
use crate::device::host::sets::encode::encoding::Sets;
use crate::error::Result;
use crate::ir::set_predicate::SetTest;

/// The half of the pairs that a self join tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelfJoinHalf {
    /// Whether the indexed positions from the probe position on are tested, or those up to it.
    later: bool,
    /// Whether only sets of equal size match in both directions.
    of_one_size: bool,
}

impl SelfJoinHalf {
    /// `None` if the sides differ.
    pub(crate) fn of(indexed: &Sets, probe: &Sets, test: SetTest) -> Option<Self> {
        let same = indexed.sizes == probe.sizes
            && indexed.groups == probe.groups
            && indexed.offsets == probe.offsets
            && indexed.elements == probe.elements;
        same.then(|| Self {
            later: !test.is_containment() || test.indexed_contains(),
            of_one_size: test.is_containment(),
        })
    }

    /// The part of the window of probe position `at` that is tested.
    pub(crate) fn of_window(&self, at: usize, window: &Range<usize>) -> Range<usize> {
        match self.later {
            true => window.start.max(at).min(window.end)..window.end,
            false => window.start..window.end.min(at + 1).max(window.start),
        }
    }

    /// Whether a match is found in this direction alone. Matches of empty sets are found in both.
    pub(crate) fn mirrors(&self, sets: &Sets, at: usize, position: usize) -> bool {
        let [size, other] = [at, position].map(|at| sets.sizes[at]);
        at != position && size > 0 && other > 0 && (size == other || !self.of_one_size)
    }
}

/// The matches of a block of probe sets: the number of each set's matches, and the concatenated lists.
pub(crate) type MatchLists = (Vec<u32>, Vec<u32>);

/// The number of matching rows of each probe set, including those that follow by symmetry.
pub(crate) fn counts(
    sets: &Sets,
    found: &[MatchLists],
    half: Option<SelfJoinHalf>,
    check_cancelled: CancelCheck<'_>,
) -> Result<Vec<u32>> {
    let counts = found.iter().flat_map(|(counts, _)| counts);
    let mut counts: Vec<u32> = counts.copied().collect();
    let members = &sets.members;
    if half.is_none() && members.are_single() {
        return Ok(counts);
    }
    counts.fill(0);
    each_match(found, check_cancelled, |at, position| {
        counts[at] += members.count(position);
        if half.is_some_and(|half| half.mirrors(sets, at, position)) {
            counts[position] += members.count(at);
        }
    })?;
    Ok(counts)
}

/// The match lists of all probe sets as indexed row ids: where each list begins and the end, and the concatenated
/// lists. `counts`: the length of each list.
pub(crate) fn lists(
    sets: &Sets,
    found: &[MatchLists],
    half: Option<SelfJoinHalf>,
    mut counts: Vec<u32>,
    check_cancelled: CancelCheck<'_>,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut segments = Vec::with_capacity(counts.len() + 1);
    let mut end = 0;
    segments.push(end);
    segments.extend(counts.iter().map(|count| {
        end += count;
        end
    }));
    let Some(half) = half else {
        let mut rows = Vec::with_capacity(end as usize);
        for (_, matches) in found {
            check_cancelled()?;
            for position in matches {
                rows.extend_from_slice(sets.members.of(*position as usize));
            }
        }
        return Ok((segments, rows));
    };
    let mut rows = vec![0; end as usize];
    // Fills each list from its end.
    let mut place = |at: usize, position: usize| {
        let members = sets.members.of(position);
        counts[at] -= members.len() as u32;
        let from = (segments[at] + counts[at]) as usize;
        rows[from..from + members.len()].copy_from_slice(members);
    };
    each_match(found, check_cancelled, |at, position| {
        place(at, position);
        if half.mirrors(sets, at, position) {
            place(position, at);
        }
    })?;
    Ok((segments, rows))
}

fn each_match(
    found: &[MatchLists],
    check_cancelled: CancelCheck<'_>,
    mut each: impl FnMut(usize, usize),
) -> Result<()> {
    let mut at = 0;
    let mut pace = Pace::new(check_cancelled);
    for (counts, matches) in found {
        let mut from = 0;
        for count in counts {
            let to = from + *count as usize;
            pace.step(1 + to - from)?;
            matches[from..to]
                .iter()
                .for_each(|position| each(at, *position as usize));
            (at, from) = (at + 1, to);
        }
    }
    Ok(())
}
