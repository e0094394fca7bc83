//! Set joins on the host (\[B\] chapters 4 to 6): the lists of one side are encoded and indexed, those of the other
//! side probe the index.
//!
//! ```text
//!  indexed lists ─► encode ─► choose ─► an index of the technique
//!  probe lists ─► encode in the same domain ─► blocks of 64 sets ─► length filter ─► technique
//!        ─► lists of matches, or counts
//! ```
//!
//! Matches of empty sets are found before the techniques, which see only non-empty sets and report only sets that share
//! an element.

use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::encode::encoding;
use crate::device::host::sets::finder::{Finder, MOST_MATCHES, SetIndex, lists_of};
use crate::device::host::sets::pair_overlaps::CountedSets;
use crate::device::host::sets::{choose, collect, self_join};

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::device::budget::Budget;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::{SetCounting, SetCounts, SetMatches};
use crate::device::host::sets::choose::Profile;
use crate::device::host::sets::probe_side::ProbeSide;
use crate::device::set_profile::SetProfile;
use crate::error::{BowtieError, Result};
use crate::ir::set_predicate::{SetTechnique, SetTest};
use crate::list_sets::elements::mean_length;

/// Indexes a column of lists or of single elements, for a given technique or for the one that suits this column and the
/// `probe` column. `groups`: the group of each row, and the number of groups.
pub(crate) fn index(
    budget: &Arc<Budget>,
    column: &Column,
    groups: Option<(&Buffer<u32>, u32)>,
    not_null: &[&Keys],
    test: SetTest,
    (technique, probe): (Option<SetTechnique>, &Column),
    check_cancelled: CancelCheck<'_>,
) -> Result<SetIndex> {
    let rows = column.rows();
    check_chunk_rows(rows)?;
    let (lists, plain) = lists_of(budget, column, not_null)?;
    let ids = groups.map(|(ids, _)| ids.on_host()).transpose()?;
    let ids = ids.map(AsRef::as_ref);
    let encoded = encoding::encode(budget, rows, &lists, ids, check_cancelled)?;
    drop((lists, plain));
    let (sets, universe) = (encoded.sets, encoded.universe);
    let count = groups.map_or(1, |(_, count)| count as usize);
    let mut segments = vec![0u32; count + 1];
    for group in &sets.groups {
        segments[*group as usize + 1] += 1;
    }
    for group in 0..count {
        segments[group + 1] += segments[group];
    }
    let squares = segments
        .windows(2)
        .map(|of_group| u64::from(of_group[1] - of_group[0]).pow(2));
    let squares: u64 = squares.sum();
    let profile = Profile {
        sets: SetProfile {
            indexed: sets.len() as u64,
            // The probe side has as many equal sets, most likely.
            probe: (probe.rows() as u64 * sets.len() as u64)
                / (sets.members.rows.len() as u64).max(1),
            mean_indexed: (sets.elements.len() / sets.len().max(1)) as u64,
            mean_probe: mean_length(probe.on_host()?),
            universe: universe as u64,
        },
        groups: (sets.len() as u64).pow(2) / squares.max(1),
    };
    let technique = choose::choose(technique, test, &profile);
    let bytes = Finder::bytes(technique, &sets, universe);
    let lease = budget.lease(bytes, "an index of sets")?;
    check_cancelled()?;
    Ok(SetIndex {
        finder: Finder::new(technique, &sets, universe, test, check_cancelled)?,
        sets,
        domain: encoded.domain,
        segments,
        rows,
        test,
        universe,
        counted: CountedSets::default(),
        _lease: lease,
    })
}

/// The matches of each row of `column`, as lists. Out-of-memory if more than [`MOST_MATCHES`] are expected.
pub(crate) fn search(
    budget: &Arc<Budget>,
    index: &SetIndex,
    column: &Column,
    groups: Option<&Buffer<u32>>,
    not_null: &[&Keys],
    check_cancelled: CancelCheck<'_>,
) -> Result<SetMatches> {
    let probe = ProbeSide::new(budget, index, column, groups, not_null, check_cancelled)?;
    let too_many = |matches: u64, most: u64| BowtieError::MustSplit {
        what: "probe of sets",
        size: matches,
        most,
        unit: "matches",
    };
    let expected = probe.expected_matches()?;
    if expected > MOST_MATCHES {
        return Err(too_many(expected, MOST_MATCHES));
    }
    let (found, tally) = probe.run(
        &probe.blocks(),
        probe.half,
        |sets| collect::Lists::new(sets.len(), budget),
        collect::Lists::finish,
    )?;
    let mut leases = Vec::with_capacity(found.len());
    let mut lists = Vec::with_capacity(found.len());
    for (counts, matches, of_block) in found {
        leases.push(of_block);
        lists.push((counts, matches));
    }
    let counts = self_join::counts(&index.sets, &lists, probe.half, check_cancelled)?;
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if u32::try_from(total).is_err() {
        // 32-bit positions hold no more: an error, so that the caller retries with fewer rows.
        return Err(too_many(total, u64::from(u32::MAX)));
    }
    let (places, probe_rows) = (
        probe.sets.len() as u64,
        probe.sets.members.rows.len() as u64,
    );
    let lo_lease = budget.lease(probe_rows * 4, "range bounds")?;
    let hi_lease = budget.lease(probe_rows * 4, "range bounds")?;
    let segments_lease = budget.lease(places * 4 + 4, "range bounds")?;
    let matches_lease = budget.lease(total * 4, "matches of sets")?;
    let (segments, rows) =
        self_join::lists(&index.sets, &lists, probe.half, counts, check_cancelled)?;
    drop((lists, leases));
    let members = &probe.sets.members;
    let bounds = |of: &[u32], lease| Buffer::host(members.spread(of), lease);
    Ok(SetMatches {
        ranges: Ranges {
            lo: bounds(&segments[..segments.len() - 1], lo_lease),
            hi: bounds(&segments[1..], hi_lease),
        },
        matches: OrderedRows {
            rows: Buffer::host(rows, matches_lease),
            keys: None,
            segments: Some(Buffer::host(segments, segments_lease)),
        },
        probe: probe.into_rows(budget)?,
        tally,
    })
}

/// The number of matches of each row.
pub(crate) fn count(
    budget: &Arc<Budget>,
    index: &SetIndex,
    column: &Column,
    groups: Option<&Buffer<u32>>,
    counting: SetCounting,
    check_cancelled: CancelCheck<'_>,
) -> Result<SetCounts> {
    let probe = ProbeSide::new(budget, index, column, groups, &[], check_cancelled)?;
    let blocks = probe.blocks();
    let probe_rows = probe.sets.members.rows.len() as u64;
    let counts_lease = budget.lease(probe_rows * 4, "match counts")?;
    let both = counting == SetCounting::Both;
    let counted = if both { index.rows } else { 0 };
    let indexed_lease = budget.lease(counted as u64 * 8, "match counts")?;
    let of_positions: Vec<AtomicU32> = match both {
        true => index.sets.sizes.iter().map(|_| AtomicU32::new(0)).collect(),
        false => vec![],
    };
    let none = |sets: Range<usize>| vec![0; sets.len()];
    // For existence each set is searched by itself, so that it can stop at its first match.
    let half = probe.half.filter(|_| counting != SetCounting::Exists);
    let places = half.map_or(0, |_| probe.sets.len());
    let members = [&index.sets.members, &probe.sets.members];
    let _lease = budget.lease(places as u64 * 4, "match counts")?;
    let mirrored: Vec<AtomicU32> = (0..places).map(|_| AtomicU32::new(0)).collect();
    let (counts, tally) = match counting {
        SetCounting::Exists => {
            let exists = |sets| collect::Exists { counts: none(sets) };
            probe.run(&blocks, None, exists, |sink| Ok(sink.counts))?
        }
        SetCounting::Probe | SetCounting::Both => {
            let counts = |sets: Range<usize>| collect::Counts {
                mirror: half.map(|half| collect::Mirror {
                    half,
                    sets: &index.sets,
                    counts: &mirrored,
                }),
                first: sets.start,
                members,
                counts: none(sets),
                indexed: &of_positions,
            };
            probe.run(&blocks, half, counts, |sink| Ok(sink.counts))?
        }
    };
    let mut counts = counts.concat();
    for (count, more) in counts.iter_mut().zip(mirrored) {
        *count += more.into_inner();
    }
    let mut indexed = vec![0; counted];
    for (position, count) in of_positions.into_iter().enumerate() {
        let count = count.into_inner();
        let rows = index.sets.members.of(position);
        rows.iter().for_each(|row| indexed[*row as usize] = count);
    }
    Ok(SetCounts {
        counts: Buffer::host(probe.sets.members.spread(&counts), counts_lease),
        probe: probe.into_rows(budget)?,
        indexed: both.then(|| Buffer::host(indexed, indexed_lease)),
        tally,
    })
}

/// How often each row id below `rows` occurs in the lists of all probe rows.
pub(crate) fn occurrences(
    budget: &Arc<Budget>,
    matches: &OrderedRows,
    ranges: &Ranges,
    rows: usize,
) -> Result<Buffer<u32>> {
    let lease = budget.lease(rows as u64 * 4, "coverage")?;
    let mut counts = vec![0u32; rows];
    if ranges.share_lists(matches) {
        let _lease = budget.lease(matches.len() as u64 * 8 + 8, "coverage")?;
        // Each position is in all ranges that begin up to it, less those that end there.
        let mut changes = vec![0i64; matches.len() + 1];
        for (lo, hi) in ranges.lo.on_host()?.iter().zip(ranges.hi.on_host()?) {
            changes[*lo as usize] += 1;
            changes[*hi as usize] -= 1;
        }
        let mut covering = 0;
        for (row, change) in matches.rows.on_host()?.iter().zip(changes) {
            covering += change;
            counts[*row as usize] += covering as u32;
        }
    } else {
        for row in matches.rows.on_host()?.iter() {
            counts[*row as usize] += 1;
        }
    }
    Ok(Buffer::host(counts, lease))
}
