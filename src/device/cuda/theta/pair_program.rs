//! Compiled residual filters on a GPU (`kernels/theta/program/program.cu`): candidates enter, counts and row ids of
//! those that pass leave.
//!
//! | candidates | counted | expanded |
//! |---|---|---|
//! | all of a long range | `program_count` runs the filter on each | `program_expand` runs it again |
//! | all of short ranges, as of equal keys, or those that pass tests (the walk over zone maps finds them) | they are listed in batches, `program_filter` decides on each batch, and those that pass are counted by probe position | the same for the probe positions of a window, and the results of all batches are concatenated |
//!
//! A lane of a warp evaluates 16 candidates at once, so it wastes most of its work on a range of a few. A list needs memory for the
//! positions of both sides; without that memory the ranges are walked. Both ways give the same matches in the same order.

use std::ops::Range;
use std::sync::Arc;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, INCLUSIVE_U32};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::pair_program_arg::ProgramArg;
use crate::device::cuda::theta::range;
use crate::device::cuda::theta::testers::{self, CountArgs, ExpandArgs, Tester, Written};
use crate::device::cuda::theta::zone_map;
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::{BoundProgram, Matches};
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::error::{BowtieError, IfItFits as _, Result};

/// Listed candidates of a batch.
const CANDIDATES: u64 = 1 << 22;
/// Ranges with at most this number of candidates, on average over all probe positions, are short: two steps of a lane.
const SHORT: u64 = 32;
/// Candidates are listed for a piece of output only if the two sides have at most this number of positions for each match of it: every
/// piece pays for all positions.
const POSITIONS_OF_A_MATCH: usize = 1024;
/// Candidates of the first launch: some ten milliseconds.
const FIRST_CANDIDATES: usize = 1 << 32;
/// Launches take a multiple of this number of probe positions: whole blocks for each number of threads.
pub(crate) const TOGETHER: usize = 128;
/// Build positions of a slice, at least.
const SLICE: usize = 2048;

/// A compiled filter, with the word that it sets where only the host can decide.
struct Filter<'a> {
    program: &'a ProgramArg,
    fault: &'a Memory,
}

impl Tester for Filter<'_> {
    unsafe fn count(&self, stream: &Stream, shape: Shape, args: CountArgs) -> Result<()> {
        let (lo, hi, first, positions, exists_only, by_slice, counts) = args;
        let (program, fault) = (self.program.into(), self.fault.into());
        let args = (
            program,
            lo,
            hi,
            first,
            positions,
            exists_only,
            by_slice,
            counts,
            fault,
        );
        // SAFETY: the caller's promise.
        unsafe { stream.launch(kernels::PROGRAM_COUNT, shape, &args) }
    }

    unsafe fn expand(&self, stream: &Stream, shape: Shape, args: ExpandArgs) -> Result<()> {
        let (lo, hi, offsets, slices, rows, first, positions, from, len, out) = args;
        let (program, fault) = (self.program.into(), self.fault.into());
        let args = (
            program, lo, hi, offsets, slices, rows, first, positions, from, len, out, fault,
        );
        // SAFETY: the caller's promise.
        unsafe { stream.launch(kernels::PROGRAM_EXPAND, shape, &args) }
    }
}

/// The launch shape for `positions` probe positions; few of them are spread over slices of the build side.
pub(crate) fn runners(stream: &Stream, program: &ProgramArg, positions: usize) -> Shape {
    let warps = positions.div_ceil(32).max(1);
    let wanted = (128 * stream.gpu.multiprocessors as usize).div_ceil(warps);
    let slices = wanted.min(program.build_len as usize / SLICE);
    Shape {
        slices: slices.max(1) as u32,
        ..program.shape(positions, 1)
    }
}

/// The error [`BowtieError::NeedsDataFusion`] if the filter met a candidate that only the host can decide.
fn check_fault(stream: &Stream, fault: &Memory) -> Result<()> {
    let mut word = [0; 4];
    stream.read_few(&mut word, fault, 0)?;
    match u32::from_le_bytes(word) {
        0 => Ok(()),
        _ => Err(BowtieError::NeedsDataFusion),
    }
}

/// The number of candidates per probe position that pass all tests and the filter, at most 1 if `exists_only`;
/// `None` if the filter cannot run on the GPU. `check_cancelled` is called between launches; its error ends the count.
pub(crate) fn program_count(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    bound: &BoundProgram<'_>,
    exists_only: bool,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Option<Buffer<u32>>> {
    let (m, n) = (matches.ranges.rows(), matches.build.len());
    let Some(program) = ProgramArg::of(bound, n, m) else {
        return Ok(None);
    };
    if n == 0 || m == 0 {
        let counts = stream.zeroed(m * 4, "match counts")?;
        return Ok(Some(Buffer::cuda(counts, m)));
    }
    let fault = stream.zeroed(4, "match counts")?;
    let count_listed = |offsets: &Buffer<u64>| {
        let args = (offsets, exists_only, check_cancelled);
        count_listed(stream, matches, &program, &fault, args)
    };
    if !matches.tests.is_empty() {
        let Some(counts) = zone_map::zones_count(stream, matches, false, check_cancelled)? else {
            return Ok(None);
        };
        return count_listed(&scan::scan_offsets(stream, &counts)?).map(Some);
    }
    let listed = || {
        let offsets = short(
            stream,
            &range::range_counts(stream, matches.ranges, false)?,
            m,
        )?;
        offsets.map(|offsets| count_listed(&offsets)).transpose()
    };
    if let Some(counts) = listed().if_it_fits()?.flatten() {
        return Ok(Some(counts));
    }
    let counts = stream.zeroed(m * 4, "match counts")?;
    stream.in_launches(
        m,
        TOGETHER,
        FIRST_CANDIDATES / n,
        check_cancelled,
        |first, positions| {
            let args = (
                (&program).into(),
                memory(&matches.ranges.lo)?.into(),
                memory(&matches.ranges.hi)?.into(),
                (first as u32).into(),
                (positions as u32).into(),
                u32::from(exists_only).into(),
                0u32.into(),
                counts.word(first)?.into(),
                (&fault).into(),
            );
            let shape = runners(stream, &program, positions);
            // SAFETY: the program's columns are by build and by probe position; ranges and counts are of m probe
            // positions; `counts` and `fault` are zero.
            unsafe { stream.launch(kernels::PROGRAM_COUNT, shape, &args) }
        },
    )?;
    check_fault(stream, &fault)?;
    Ok(Some(Buffer::cuda(counts, m)))
}

/// The row ids of matches number `from .. from + len`; `None` if the filter cannot run on the GPU. `offsets` are
/// the scanned counts of [`program_count`].
pub(crate) fn program_expand(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    bound: &BoundProgram<'_>,
    offsets: &Buffer<u64>,
    from: u64,
    len: usize,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Option<Pairs>> {
    let (m, n) = (matches.ranges.rows(), matches.build.len());
    let Some(program) = ProgramArg::of(bound, n, m) else {
        return Ok(None);
    };
    if len == 0 {
        return Ok(Some(Pairs {
            probe: Buffer::cuda(stream.alloc(0, "join output rows")?, 0),
            build: Buffer::cuda(stream.alloc(0, "join output rows")?, 0),
        }));
    }
    let positions = testers::window(stream, offsets, from, len)?;
    let expand_listed = |candidates: &Buffer<u64>| {
        let offsets = (offsets, candidates);
        let of = (positions.clone(), from, len);
        expand_listed(stream, matches, &program, offsets, of, check_cancelled)
    };
    if !matches.tests.is_empty() {
        let Some(counts) = zone_map::zones_count_of(stream, matches, positions.clone())? else {
            return Ok(None);
        };
        return expand_listed(&scan::scan_offsets(stream, &counts)?).map(Some);
    }
    if (n + m) / len <= POSITIONS_OF_A_MATCH {
        let listed = || {
            let lengths = range::lengths_of(stream, matches.ranges, positions.clone())?;
            let candidates = short(stream, &lengths, positions.len())?;
            candidates.map(|of| expand_listed(&of)).transpose()
        };
        if let Some(pairs) = listed().if_it_fits()?.flatten() {
            return Ok(Some(pairs));
        }
    }
    let out_build = stream.alloc(len * 4, "join output rows")?;
    // The counting pass decided on each candidate, so none needs the host.
    let fault = stream.zeroed(4, "join output rows")?;
    let tester = Filter {
        program: &program,
        fault: &fault,
    };
    let written = Written {
        from,
        len,
        build: &out_build,
    };
    let most = FIRST_CANDIDATES / n.max(1);
    stream.in_launches(
        positions.len(),
        TOGETHER,
        most,
        check_cancelled,
        |first, count| {
            let first = positions.start + first;
            let (shape, positions) = (runners(stream, &program, count), first..first + count);
            // SAFETY: the program's columns are by build and by probe position, offsets come from program_count.
            unsafe {
                testers::expand_positions(
                    stream, &tester, shape, matches, offsets, positions, written,
                )
            }
        },
    )?;
    Ok(Some(Pairs {
        probe: testers::expand_probe(stream, matches, offsets, from, len)?,
        build: Buffer::cuda(out_build, len),
    }))
}

/// The offsets of candidates, `lengths` of them by probe position, if the ranges of `m` positions are short on average. Others
/// have none.
fn short(stream: &Arc<Stream>, lengths: &Buffer<u32>, m: usize) -> Result<Option<Buffer<u64>>> {
    let offsets = scan::scan_offsets(stream, lengths)?;
    let candidates = stream.read_word(memory(&offsets)?, offsets.len() - 1)?;
    Ok((candidates <= SHORT * m as u64).then_some(offsets))
}

/// Counts in batches of listed candidates: those of all ranges, or those that pass the tests. `offsets` number them by probe position.
fn count_listed(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    program: &ProgramArg,
    fault: &Memory,
    (offsets, exists_only, check_cancelled): (&Buffer<u64>, bool, &dyn Fn() -> Result<()>),
) -> Result<Buffer<u32>> {
    let m = matches.ranges.rows();
    // One is added at the position of each match, and subtracted behind it: the prefix sums of these steps are the
    // counts by position.
    let steps = stream.zeroed((m + 1) * 4, "match counts")?;
    let behind = rows::sequence(stream, 1, m)?;
    each_passing(stream, matches, program, offsets, fault, |_, probe| {
        check_cancelled()?;
        let k = probe.len();
        let ends = rows::gather_values(stream, memory(&behind)?, memory(&probe)?, k, 4)?;
        let args = (
            memory(&probe)?.into(),
            (&ends).into(),
            (&steps).into(),
            (k as u32).into(),
        );
        // SAFETY: ends are m at most, and `steps` holds m + 1 words.
        unsafe { stream.launch(kernels::RANGE_COVER_STEPS, stream.strips(k), &args) }
    })?;
    check_fault(stream, fault)?;
    let counts = scan::scan(stream, INCLUSIVE_U32, &steps, m, "match counts")?;
    let counts = Buffer::cuda(counts, m);
    if !exists_only {
        return Ok(counts);
    }
    let from_zero = Ranges {
        lo: Buffer::cuda(stream.zeroed(m * 4, "match counts")?, m),
        hi: counts,
    };
    range::range_counts(stream, &from_zero, true)
}

/// Expands matches number `from .. from + len`, by batches of listed candidates; `positions` are the probe positions that have some of
/// them, `offsets` those of the matches and of the candidates.
fn expand_listed(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    program: &ProgramArg,
    (offsets, candidates): (&Buffer<u64>, &Buffer<u64>),
    (positions, from, len): (Range<usize>, u64, usize),
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Pairs> {
    let before = stream.read_word(memory(offsets)?, positions.start)?;
    // Positions of the matches from number `before` on, to the end of the window.
    let most = (from - before) as usize + len;
    let build = stream.alloc(most * 4, "join output rows")?;
    let probe = stream.alloc(most * 4, "join output rows")?;
    let mut at = 0;
    // The counting pass decided on each candidate, so none needs the host.
    let fault = stream.zeroed(4, "join output rows")?;
    each_passing(stream, matches, program, candidates, &fault, |s, p| {
        check_cancelled()?;
        let words = s.len().min(most - at);
        memory(&s)?.copy_to(words * 4, &build, at * 4)?;
        memory(&p)?.copy_to(words * 4, &probe, at * 4)?;
        at += words;
        Ok(())
    })?;
    if at != most {
        return Err(BowtieError::Internal(format!(
            "a program gave {at} matches where {most} were counted"
        )));
    }
    let skip = rows::sequence(stream, (from - before) as u32, len)?;
    let rows = |positions: &Memory, rows: &Buffer<u32>| -> Result<Buffer<u32>> {
        let within = rows::gather_values(stream, positions, memory(&skip)?, len, 4)?;
        let rows = rows::gather_values(stream, memory(rows)?, &within, len, 4)?;
        Ok(Buffer::cuda(rows, len))
    };
    Ok(Pairs {
        probe: rows(&probe, &matches.probe.rows)?,
        build: rows(&build, &matches.build.rows)?,
    })
}

/// Calls `with` with the build and the probe positions of the candidates that pass the filter, in their order, once
/// per batch. `offsets` number the candidates.
fn each_passing(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    program: &ProgramArg,
    offsets: &Buffer<u64>,
    fault: &Memory,
    mut with: impl FnMut(Buffer<u32>, Buffer<u32>) -> Result<()>,
) -> Result<()> {
    let total = stream.read_word(memory(offsets)?, offsets.len() - 1)?;
    // Rows are replaced by their positions, so that the expansion returns positions.
    let in_order = |len: usize| -> Result<OrderedRows> {
        Ok(OrderedRows {
            rows: rows::sequence(stream, 0, len)?,
            keys: None,
            segments: None,
        })
    };
    let (build, probe) = (
        in_order(matches.build.len())?,
        in_order(matches.probe.len())?,
    );
    let by_position = Matches {
        build: &build,
        probe: &probe,
        ..matches
    };
    let mut from = 0;
    while from < total {
        let len = (total - from).min(CANDIDATES) as usize;
        let pairs = match matches.tests.is_empty() {
            true => {
                range::expand_ranges(stream, &build, &probe, matches.ranges, offsets, from, len)?
            }
            false => zone_map::zones_expand(stream, by_position, offsets, from, len, &|| Ok(()))?
                .ok_or_else(|| BowtieError::Internal("tests that were counted".into()))?,
        };
        let keep = stream.zeroed(bitmap_bytes(len), "join output rows")?;
        let args = (
            program.into(),
            memory(&pairs.build)?.into(),
            memory(&pairs.probe)?.into(),
            (len as u32).into(),
            (&keep).into(),
            fault.into(),
        );
        let shape = program.shape(len, 16);
        // SAFETY: positions are inside of the program's columns, which are by position; `keep` holds len bits.
        unsafe { stream.launch(kernels::PROGRAM_FILTER, shape, &args)? };
        with(
            rows::select(stream, &keep, len, Some(memory(&pairs.build)?))?,
            rows::select(stream, &keep, len, Some(memory(&pairs.probe)?))?,
        )?;
        from += len as u64;
    }
    Ok(())
}
