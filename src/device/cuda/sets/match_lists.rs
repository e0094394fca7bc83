//! Lists of matches, or counts of them, from the pairs that the technique kernels write
//! (`kernels/sets/set_matches.cu`).
//!
//! ```text
//!  a search ─► pairs in any order, and counts ─► more pairs than the buffer holds: run again with a larger one
//!           ─► counts scanned ─► each pair to the list of its probe set
//! ```

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::empty_sets::EmptySetMatches;
use crate::device::cuda::sets::encode::encoded::{Members, Sets};
use crate::device::cuda::sets::encode::equal_sets;
use crate::device::cuda::sets::predicate::Target;
use crate::device::cuda::sets::search::PreparedProbe;
use crate::device::cuda::theta::range;
use crate::device::data::buffer::Buffer;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::SetCounting;
use crate::error::{BowtieError, Result};

/// Capacity of the first buffer, in pairs: per probe set, and at least.
const PAIRS_A_SET: usize = 4;
const SOME_PAIRS: usize = 1 << 16;

/// The first buffer takes one `MEMORY_SHARE`th of the free memory, at most.
const MEMORY_SHARE: u64 = 4;

/// Bytes of a pair of positions.
const PAIR_BYTES: usize = 8;

/// Matches of one search, at most: as many as a chunk has rows, and few enough for output to begin soon.
const MOST_LISTED: u64 = 1 << 28;

/// The matches of all probe sets as lists.
pub(crate) struct MatchLists {
    /// Indexed positions, list after list; `total` of them.
    positions: Memory,
    total: usize,
    /// Start of each list, and the end.
    segments: Buffer<u32>,
    /// Candidates whose elements were compared.
    pub(crate) verified: u64,
}

/// The number of matching rows by probe position and, if wanted, by indexed position.
pub(crate) struct MatchCounts {
    pub(crate) probe: Memory,
    pub(crate) indexed: Option<Memory>,
    pub(crate) verified: u64,
}

/// Runs a search for its pairs, and again if they exceed the buffer. `empties` are added. An out-of-memory error
/// for more than [`MOST_LISTED`] matches, so that the caller halves the tile.
pub(crate) fn list_matches(
    stream: &Arc<Stream>,
    search: &PreparedProbe<'_>,
    probe: &Sets,
    empties: Option<&EmptySetMatches>,
) -> Result<MatchLists> {
    let n = probe.len;
    let known = empties.map_or(0, |empties| empties.total);
    check_listed(known)?;
    let free = stream
        .budget
        .limit()
        .saturating_sub(stream.budget.in_use_by_all());
    let affordable = free / MEMORY_SHARE / PAIR_BYTES as u64;
    let wanted = (n * PAIRS_A_SET).max(SOME_PAIRS) as u64;
    let mut capacity = wanted.min(affordable).max(1);
    let (counts, pairs, tested, verified) = loop {
        let bytes = (known + capacity) as usize * PAIR_BYTES;
        let pairs = stream.alloc(bytes, "matches of sets")?;
        let counts = stream.zeroed(n * 4, "match counts")?;
        let totals = stream.zeroed(16, "match counts")?;
        (search.run)(&Target {
            counts: &counts,
            indexed: None,
            pairs: Some(pairs.part(known as usize * PAIR_BYTES)?),
            capacity,
            totals: &totals,
            weights: [None, None],
        })?;
        let (tested, verified) = read_totals(stream, &totals)?;
        check_listed(known + tested)?;
        if tested <= capacity {
            break (counts, pairs, tested, verified);
        }
        capacity = tested;
    };
    if let Some(empties) = empties {
        empties.write(stream, &pairs)?;
        add(stream, &counts, memory(&empties.counts)?, n)?;
    }
    let total = (known + tested) as usize;
    let offsets = match n {
        0 => stream.zeroed(4, "range bounds")?,
        _ => scan::scan(stream, EXCLUSIVE_U32, &counts, n, "range bounds")?,
    };
    let positions = stream.alloc(total * 4, "matches of sets")?;
    let args = (
        (&pairs).into(),
        (total as u32).into(),
        (&offsets).into(),
        (&counts).into(),
        (&positions).into(),
    );
    // SAFETY: counts are those of the pairs, and offsets their sums, so that each pair has a place of its own.
    unsafe { stream.launch(kernels::SET_MATCHES_PLACE, Shape::rows(total), &args)? };
    Ok(MatchLists {
        positions,
        total,
        segments: Buffer::cuda(offsets, n + 1),
        verified,
    })
}

/// The lists of `found` with all rows of the indexed sets, and the list of each row of the probe sets.
pub(crate) fn lists_of_rows(
    stream: &Arc<Stream>,
    found: MatchLists,
    [probe, indexed]: [&Sets; 2],
) -> Result<(OrderedRows, Ranges)> {
    let rows = memory(&indexed.rows)?;
    let (rows, segments) = match &indexed.members {
        None => {
            let rows = rows::gather_values(stream, rows, &found.positions, found.total, 4)?;
            (Buffer::cuda(rows, found.total), found.segments)
        }
        Some(members) => lists_of_members(stream, found, members, &indexed.rows, probe.len)?,
    };
    let bounds = memory(&segments)?;
    let ranges = Ranges {
        lo: equal_sets::by_row(stream, probe, bounds.part(0)?)?,
        hi: equal_sets::by_row(stream, probe, bounds.part(4)?)?,
    };
    let matches = OrderedRows {
        rows,
        keys: None,
        segments: Some(segments),
    };
    Ok((matches, ranges))
}

/// The lists with the rows of each position, of `lists` lists: rows, and the start of each list with the end.
fn lists_of_members(
    stream: &Arc<Stream>,
    found: MatchLists,
    members: &Members,
    rows: &Buffer<u32>,
    lists: usize,
) -> Result<(Buffer<u32>, Buffer<u32>)> {
    let MatchLists {
        positions, total, ..
    } = found;
    let bound = |from: usize| -> Result<Buffer<u32>> {
        let starts = members.starts.part(from * 4)?;
        let bounds = rows::gather_values(stream, starts, &positions, total, 4)?;
        Ok(Buffer::cuda(bounds, total))
    };
    let of_positions = Ranges {
        lo: bound(0)?,
        hi: bound(1)?,
    };
    drop(positions);
    let counts = range::range_counts(stream, &of_positions, false)?;
    let offsets = scan::scan_offsets(stream, &counts)?;
    let len = stream.read_word(memory(&offsets)?, total)?;
    check_listed(len)?;
    let all = rows::sequence(stream, 0, total)?;
    let expanded = range::expand_rows(
        stream,
        [rows, &all],
        &of_positions,
        &offsets,
        0,
        len as usize,
    )?;
    let sums = match total {
        0 => stream.zeroed(4, "range bounds")?,
        _ => scan::scan(
            stream,
            EXCLUSIVE_U32,
            memory(&counts)?,
            total,
            "range bounds",
        )?,
    };
    let segments = rows::gather_values(stream, &sums, memory(&found.segments)?, lists + 1, 4)?;
    Ok((expanded.build, Buffer::cuda(segments, lists + 1)))
}

/// Runs a search for its counts alone; at most 1 per probe set for [`SetCounting::Exists`].
pub(crate) fn count_matches_of_sets(
    stream: &Arc<Stream>,
    search: &PreparedProbe<'_>,
    [probe, indexed]: [&Sets; 2],
    empties: Option<&EmptySetMatches>,
    counting: SetCounting,
) -> Result<MatchCounts> {
    let n = probe.len;
    let counts = stream.zeroed(n * 4, "match counts")?;
    let of_indexed = match counting {
        SetCounting::Exists | SetCounting::Probe => None,
        SetCounting::Both => Some(stream.zeroed(indexed.len * 4, "match counts")?),
    };
    let totals = stream.zeroed(16, "match counts")?;
    (search.run)(&Target {
        counts: &counts,
        indexed: of_indexed.as_ref(),
        pairs: None,
        capacity: 0,
        totals: &totals,
        weights: [probe.weights(), indexed.weights()],
    })?;
    if let Some(empties) = empties {
        let more = empties.of_probe(stream, indexed)?;
        add(stream, &counts, memory(&more)?, n)?;
        if let Some(of_indexed) = &of_indexed {
            let more = empties.of_indexed(stream, probe)?;
            add(stream, of_indexed, memory(&more)?, indexed.len)?;
        }
    }
    if counting == SetCounting::Exists {
        let args = ((&counts).into(), (n as u32).into());
        // SAFETY: there are n counts.
        unsafe { stream.launch(kernels::SET_MATCHES_EXIST, Shape::rows(n), &args)? };
    }
    let (_, verified) = read_totals(stream, &totals)?;
    Ok(MatchCounts {
        probe: counts,
        indexed: of_indexed,
        verified,
    })
}

/// Refuses more than [`MOST_LISTED`] matches, as out of memory: positions in lists have 32 bits, and fewer rows
/// have fewer matches.
fn check_listed(matches: u64) -> Result<()> {
    if matches <= MOST_LISTED {
        return Ok(());
    }
    Err(BowtieError::MustSplit {
        what: "probe of sets",
        size: matches,
        most: MOST_LISTED,
        unit: "matches",
    })
}

/// The numbers of pairs and of verified candidates.
fn read_totals(stream: &Stream, totals: &Memory) -> Result<(u64, u64)> {
    let mut bytes = [[0; 8]; 2];
    stream.read_few(bytes.as_flattened_mut(), totals, 0)?;
    let [pairs, verified] = bytes.map(u64::from_le_bytes);
    Ok((pairs, verified))
}

/// Adds `n` words to `sums`.
fn add(stream: &Stream, sums: &Memory, added: &Memory, n: usize) -> Result<()> {
    let args = (sums.into(), added.into(), (n as u32).into());
    // SAFETY: both hold n words.
    unsafe { stream.launch(kernels::SET_MATCHES_ADD, Shape::rows(n), &args) }
}
