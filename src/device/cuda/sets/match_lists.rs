//! Lists of matches, or counts of them, from the pairs that the technique kernels write
//! (`kernels/sets/set_matches.cu`).
//!
//! ```text
//!  a search ─► pairs in any order, and counts ─► more pairs than the buffer holds: run again with a larger one
//!           ─► counts scanned ─► each pair to the list of its probe set
//! ```

use std::sync::Arc;

use crate::device::cuda::columns::scan::EXCLUSIVE_U32;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::empty_sets::EmptySetMatches;
use crate::device::cuda::sets::encode::encoded::{Members, Sets};
use crate::device::cuda::sets::predicate::Target;
use crate::device::cuda::sets::search::PreparedProbe;
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

impl Stream {
    /// Runs a search for its pairs, and again if they exceed the buffer. `empties` are added. An out-of-memory error
    /// for more than [`MOST_LISTED`] matches, so that the caller halves the tile.
    pub(crate) fn list_matches(
        self: &Arc<Self>,
        search: &PreparedProbe<'_>,
        probe: &Sets,
        empties: Option<&EmptySetMatches>,
    ) -> Result<MatchLists> {
        let n = probe.len;
        let known = empties.map_or(0, |empties| empties.total);
        self.check_listed(known)?;
        let free = self
            .budget
            .limit()
            .saturating_sub(self.budget.in_use_by_all());
        let affordable = free / MEMORY_SHARE / PAIR_BYTES as u64;
        let wanted = (n * PAIRS_A_SET).max(SOME_PAIRS) as u64;
        let mut capacity = wanted.min(affordable).max(1);
        let (counts, pairs, tested, verified) = loop {
            let bytes = (known + capacity) as usize * PAIR_BYTES;
            let pairs = self.alloc(bytes, "matches of sets")?;
            let counts = self.zeroed(n * 4, "match counts")?;
            let totals = self.zeroed(16, "match counts")?;
            (search.run)(&Target {
                counts: &counts,
                indexed: None,
                pairs: Some(pairs.part(known as usize * PAIR_BYTES)?),
                capacity,
                totals: &totals,
                weights: [None, None],
            })?;
            let (tested, verified) = self.totals(&totals)?;
            self.check_listed(known + tested)?;
            if tested <= capacity {
                break (counts, pairs, tested, verified);
            }
            capacity = tested;
        };
        if let Some(empties) = empties {
            empties.write(self, &pairs)?;
            self.add(&counts, memory(&empties.counts)?, n)?;
        }
        let total = (known + tested) as usize;
        let offsets = match n {
            0 => self.zeroed(4, "range bounds")?,
            _ => self.scan(EXCLUSIVE_U32, &counts, n, "range bounds")?,
        };
        let positions = self.alloc(total * 4, "matches of sets")?;
        let args = (
            (&pairs).into(),
            (total as u32).into(),
            (&offsets).into(),
            (&counts).into(),
            (&positions).into(),
        );
        // SAFETY: counts are those of the pairs, and offsets their sums, so that each pair has a place of its own.
        unsafe { self.launch(kernels::SET_MATCHES_PLACE, Shape::rows(total), &args)? };
        Ok(MatchLists {
            positions,
            total,
            segments: Buffer::cuda(offsets, n + 1),
            verified,
        })
    }

    /// The lists of `found` with all rows of the indexed sets, and the list of each row of the probe sets.
    pub(crate) fn lists_of_rows(
        self: &Arc<Self>,
        found: MatchLists,
        [probe, indexed]: [&Sets; 2],
    ) -> Result<(OrderedRows, Ranges)> {
        let rows = memory(&indexed.rows)?;
        let (rows, segments) = match &indexed.members {
            None => {
                let rows = self.gather_values(rows, &found.positions, found.total, 4)?;
                (Buffer::cuda(rows, found.total), found.segments)
            }
            Some(members) => self.lists_of_members(found, members, &indexed.rows, probe.len)?,
        };
        let bounds = memory(&segments)?;
        let ranges = Ranges {
            lo: self.by_row(probe, bounds.part(0)?)?,
            hi: self.by_row(probe, bounds.part(4)?)?,
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
        self: &Arc<Self>,
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
            let bounds = self.gather_values(starts, &positions, total, 4)?;
            Ok(Buffer::cuda(bounds, total))
        };
        let of_positions = Ranges {
            lo: bound(0)?,
            hi: bound(1)?,
        };
        drop(positions);
        let counts = self.range_counts(&of_positions, false)?;
        let offsets = self.scan_offsets(&counts)?;
        let len = self.read_word(memory(&offsets)?, total)?;
        self.check_listed(len)?;
        let all = self.sequence(0, total)?;
        let expanded = self.expand_rows([rows, &all], &of_positions, &offsets, 0, len as usize)?;
        let sums = match total {
            0 => self.zeroed(4, "range bounds")?,
            _ => self.scan(EXCLUSIVE_U32, memory(&counts)?, total, "range bounds")?,
        };
        let segments = self.gather_values(&sums, memory(&found.segments)?, lists + 1, 4)?;
        Ok((expanded.build, Buffer::cuda(segments, lists + 1)))
    }

    /// Runs a search for its counts alone; at most 1 per probe set for [`SetCounting::Exists`].
    pub(crate) fn count_matches_of_sets(
        self: &Arc<Self>,
        search: &PreparedProbe<'_>,
        [probe, indexed]: [&Sets; 2],
        empties: Option<&EmptySetMatches>,
        counting: SetCounting,
    ) -> Result<MatchCounts> {
        let n = probe.len;
        let counts = self.zeroed(n * 4, "match counts")?;
        let of_indexed = match counting {
            SetCounting::Exists | SetCounting::Probe => None,
            SetCounting::Both => Some(self.zeroed(indexed.len * 4, "match counts")?),
        };
        let totals = self.zeroed(16, "match counts")?;
        (search.run)(&Target {
            counts: &counts,
            indexed: of_indexed.as_ref(),
            pairs: None,
            capacity: 0,
            totals: &totals,
            weights: [probe.weights(), indexed.weights()],
        })?;
        if let Some(empties) = empties {
            let more = empties.of_probe(self, indexed)?;
            self.add(&counts, memory(&more)?, n)?;
            if let Some(of_indexed) = &of_indexed {
                let more = empties.of_indexed(self, probe)?;
                self.add(of_indexed, memory(&more)?, indexed.len)?;
            }
        }
        if counting == SetCounting::Exists {
            let args = ((&counts).into(), (n as u32).into());
            // SAFETY: there are n counts.
            unsafe { self.launch(kernels::SET_MATCHES_EXIST, Shape::rows(n), &args)? };
        }
        let (_, verified) = self.totals(&totals)?;
        Ok(MatchCounts {
            probe: counts,
            indexed: of_indexed,
            verified,
        })
    }

    /// Refuses more than [`MOST_LISTED`] matches, as out of memory: positions in lists have 32 bits, and fewer rows
    /// have fewer matches.
    fn check_listed(&self, matches: u64) -> Result<()> {
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
    fn totals(&self, totals: &Memory) -> Result<(u64, u64)> {
        let mut bytes = [[0; 8]; 2];
        self.read_few(bytes.as_flattened_mut(), totals, 0)?;
        let [pairs, verified] = bytes.map(u64::from_le_bytes);
        Ok((pairs, verified))
    }

    /// Adds `n` words to `sums`.
    fn add(&self, sums: &Memory, added: &Memory, n: usize) -> Result<()> {
        let args = (sums.into(), added.into(), (n as u32).into());
        // SAFETY: both hold n words.
        unsafe { self.launch(kernels::SET_MATCHES_ADD, Shape::rows(n), &args) }
    }
}
