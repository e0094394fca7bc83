//! Equal sets of one side share a position, so that they are indexed and searched once (`kernels/sets/set_equal.cu`).
//! Sets in order enter; the same leave, or fewer, with the rows of each.
//!
//! ```text
//!  hashes ─► how many are equal, by a sketch ─► few: sets as they were
//!         ─► ordered by group, size and hash ─► neighbours compared ─► the first of equal ones, copied
//! ```
//!
//! Only encoded sets can be compared, so each device does this for itself.

use std::sync::Arc;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::costs;
use crate::device::cuda::sets::encode::encoded::{ByGroup, Members, Sets};
use crate::device::cuda::sets::encode::set_element_words;
use crate::device::cuda::sets::encode::word_packing::{self, Packing};
use crate::device::data::buffer::Buffer;
use crate::error::{BowtieError, Result};

/// Fewer sets are joined one by one: looking for equal ones takes some 30 µs.
const LEAST_SETS: usize = 1 << 12;

/// Counters of the sketch: it is off by two hundredths of the number of sets, as often as not by less.
const COUNTERS: usize = 1 << 12;

/// A hash of each set.
struct Hashes {
    of: Memory,
    /// `Σ n²` over the numbers of equal sets, estimated.
    equal_pairs: f64,
}

impl Hashes {
    /// Whether there are half as many pairs of equal sets (each counted both ways) as sets: each is a match of nearly
    /// every predicate.
    fn repay_sharing(&self, sets: usize) -> bool {
        self.equal_pairs >= 1.5 * sets as f64
    }
}

/// Merges equal sets into one where enough sets repeat and memory allows; otherwise returns the sets as they are.
pub(crate) fn share_equal_sets(stream: &Arc<Stream>, sets: Sets) -> Result<Sets> {
    if sets.len < LEAST_SETS {
        return Ok(sets);
    }
    let shared = hashes(stream, &sets).and_then(|hashes| {
        let pays = hashes.repay_sharing(sets.len);
        pays.then(|| shared(stream, &sets, &hashes.of)).transpose()
    });
    match shared {
        Ok(shared) => Ok(shared.unwrap_or(sets)),
        Err(BowtieError::OutOfDeviceMemory { .. }) => Ok(sets),
        Err(error) => Err(error),
    }
}

fn hashes(stream: &Arc<Stream>, sets: &Sets) -> Result<Hashes> {
    let of = stream.alloc(sets.len * 4, "hashes of sets")?;
    let counts = stream.zeroed(COUNTERS * 4, "hashes of sets")?;
    let structure = sets.structure();
    let args = (
        (&structure).into(),
        sets.groups().into(),
        (COUNTERS as u32).into(),
        (&of).into(),
        (&counts).into(),
    );
    let shape = Shape::blocks_of(sets.len, 32, 256);
    // SAFETY: the structure is of sets, each of which has a group, if there are any, and a hash.
    unsafe { stream.launch(kernels::SET_EQUAL_HASH, shape, &args)? };
    let squares = costs::sum_of_squares(stream, &counts, COUNTERS, false)?;
    // Of different sets, too, some fall into one counter.
    let by_chance = sets.len as f64 * sets.len as f64 / COUNTERS as f64;
    Ok(Hashes {
        of,
        equal_pairs: squares - by_chance,
    })
}

/// The sets, equal ones once, ordered by group, size and hash.
pub(crate) fn shared(stream: &Arc<Stream>, sets: &Sets, hashes: &Memory) -> Result<Sets> {
    let n = sets.len;
    let order = by_hash(stream, sets, hashes)?;
    let order = memory(&order)?;
    let heads = stream.alloc(bitmap_bytes(n), "equal sets")?;
    let structure = sets.structure();
    let args = (
        (&structure).into(),
        sets.groups().into(),
        hashes.into(),
        order.into(),
        (&heads).into(),
    );
    // SAFETY: the structure is of n sets, with a hash each; `order` has each of them once; `heads` holds n bits.
    unsafe { stream.launch(kernels::SET_EQUAL_HEADS, Shape::rows(n), &args)? };
    let (offsets, len) = rows::select_offsets(stream, &heads, n)?;
    let firsts = rows::select_at(stream, &heads, n, &offsets, len, None)?;
    drop((heads, offsets));
    let starts = stream.alloc((len + 1) * 4, "equal sets")?;
    memory(&firsts)?.part(0)?.copy_to(len * 4, &starts, 0)?;
    let end = rows::sequence(stream, n as u32, 1)?;
    memory(&end)?.part(0)?.copy_to(4, &starts, len * 4)?;
    let members = members(stream, starts, len)?;

    let chosen = rows::gather_values(stream, order, memory(&firsts)?, len, 4)?;
    let by_group = match &sets.by_group {
        Some(groups) => Some(ByGroup {
            groups: rows::gather_values(stream, &groups.groups, &chosen, len, 4)?,
            segments: segments_of(stream, &members, len, groups)?,
            count: groups.count,
        }),
        None => None,
    };
    let (offsets, elements, entries) = elements_of(stream, sets, &chosen, len)?;
    let rows = rows::gather_values(stream, memory(&sets.rows)?, order, n, 4)?;
    Ok(Sets {
        rows: Buffer::cuda(rows, n),
        members: Some(members),
        by_group,
        offsets,
        elements,
        sizes: rows::gather_values(stream, &sets.sizes, &chosen, len, 4)?,
        len,
        entries,
    })
}

/// The positions of sets by group, size and hash.
fn by_hash(stream: &Arc<Stream>, sets: &Sets, hashes: &Memory) -> Result<Buffer<u32>> {
    let n = sets.len;
    let words = word_packing::words(stream, Packing::of(n, u32::MAX as usize), n)?;
    let (structure, out) = (sets.structure(), words.structure());
    let [groups, segments] = sets.groups_in(sets);
    let args = (
        (&structure).into(),
        groups.into(),
        segments.into(),
        hashes.into(),
        (&out).into(),
    );
    // SAFETY: the structure is of n sets, each of which has a group, which has a segment, or none has; there are n
    // hashes and words.
    unsafe { stream.launch(kernels::SET_EQUAL_WORDS, Shape::each(n), &args)? };
    let (_, order) = word_packing::sorted_with_row_ids(stream, words, Packing::all)?;
    order.map_or_else(|| rows::sequence(stream, 0, n), Ok)
}

/// The members of `len` positions whose rows begin at `starts`, where the end is, too.
fn members(stream: &Arc<Stream>, starts: Memory, len: usize) -> Result<Members> {
    let counts = stream.alloc(len * 4, "equal sets")?;
    let args = ((&starts).into(), (len as u32).into(), (&counts).into());
    // SAFETY: `starts` holds one word more than `counts`.
    unsafe { stream.launch(kernels::SET_ENCODE_SIZES, Shape::rows(len), &args)? };
    let (positions, _, _) = set_element_words::entries(stream, &counts, len)?;
    Ok(Members {
        starts,
        counts,
        positions,
    })
}

/// The first position of each group, and the end.
fn segments_of(
    stream: &Arc<Stream>,
    members: &Members,
    len: usize,
    groups: &ByGroup,
) -> Result<Memory> {
    let count = groups.count + 1;
    let segments = stream.alloc(count * 4, "equal sets")?;
    let args = (
        (&members.starts).into(),
        (len as u32).into(),
        (&groups.segments).into(),
        (count as u32).into(),
        (&segments).into(),
    );
    // SAFETY: there are `len` starts, and an old and a new segment for each of `count`.
    unsafe { stream.launch(kernels::SET_EQUAL_SEGMENTS, Shape::each(count), &args)? };
    Ok(segments)
}

/// The elements of `len` chosen sets: their offsets, the elements, and their number.
fn elements_of(
    stream: &Arc<Stream>,
    sets: &Sets,
    chosen: &Memory,
    len: usize,
) -> Result<(Memory, Memory, usize)> {
    let lengths = stream.alloc(len * 4, "elements of sets")?;
    let structure = sets.structure();
    let args = (
        (&structure).into(),
        chosen.into(),
        (len as u32).into(),
        (&lengths).into(),
    );
    // SAFETY: chosen are positions of the sets, `len` of them.
    unsafe { stream.launch(kernels::SET_EQUAL_LENGTHS, Shape::rows(len), &args)? };
    let offsets = scan::scan(stream, EXCLUSIVE_U32, &lengths, len, "elements of sets")?;
    let entries = stream.read_word32(&offsets, len)? as usize;
    let elements = stream.alloc(entries * 4, "elements of sets")?;
    let args = (
        (&structure).into(),
        chosen.into(),
        (len as u32).into(),
        (&offsets).into(),
        (&elements).into(),
    );
    let shape = Shape::blocks_of(len, 32, 256);
    // SAFETY: chosen are positions of the sets; offsets are the sums of their lengths, and `elements` holds them all.
    unsafe { stream.launch(kernels::SET_EQUAL_ELEMENTS, shape, &args)? };
    Ok((offsets, elements, entries))
}

/// The value of each row of `sets`, of the `values` of positions, in the order of the rows.
pub(crate) fn by_row(stream: &Arc<Stream>, sets: &Sets, values: Part<'_>) -> Result<Buffer<u32>> {
    let rows = sets.rows.len();
    let spread = match &sets.members {
        None => stream.copy_of(values, rows * 4, "sets")?,
        Some(members) => rows::gather_values(stream, values, &members.positions, rows, 4)?,
    };
    Ok(Buffer::cuda(spread, rows))
}
