//! Register programs (`kernels/theta/program/program.cu`).
//!
//! | candidates | counted | expanded |
//! |---|---|---|
//! | of ranges alone | `program_count` runs the program on each | `program_expand` runs it again |
//! | that tests let through | the walk of zone maps expands them in pieces, `program_filter` decides on each piece, and those that pass are counted by searching position | the same for the positions of a window, and what passes is put one piece after another |

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::result;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::scan::INCLUSIVE_U32;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::cancellable::{Tester, Written};
use crate::device::cuda::runtime::driver::failed;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::pair_program_arg::ProgramArg;
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::{BoundProgram, Matches};
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::error::{BowtieError, Result};

/// Candidates that tests let through and that are decided on together.
const CANDIDATES: u64 = 1 << 22;
/// Candidates of the first launch: some ten milliseconds.
const FIRST_CANDIDATES: usize = 1 << 32;
/// Searching positions of whole blocks, whatever their threads.
const TOGETHER: usize = 128;
/// Sorted positions of a slice, at least.
const SLICE: usize = 2048;

impl Stream {
    /// So many slices of the sorted side that few searching positions keep the card busy too.
    fn runners(&self, program: &ProgramArg, positions: usize) -> Shape {
        let warps = positions.div_ceil(32).max(1);
        let wanted = (128 * self.gpu.multiprocessors as usize).div_ceil(warps);
        let slices = wanted.min(program.sorted_len as usize / SLICE);
        Shape {
            slices: slices.max(1) as u32,
            ..program.shape(positions, 1)
        }
    }

    /// Whether the host must decide on some pair.
    fn check_fault(&self, fault: &Memory) -> Result<()> {
        let mut word = [0; 4];
        self.read_few(&mut word, fault, 0)?;
        match u32::from_le_bytes(word) {
            0 => Ok(()),
            _ => Err(BowtieError::NeedsHost),
        }
    }

    /// Candidates that pass all tests and the program, by searching position; `None` where it cannot run here.
    pub(crate) fn program_count(
        self: &Arc<Self>,
        matches: Matches<'_>,
        bound: &BoundProgram<'_>,
        exists_only: bool,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Buffer<u32>>> {
        let (m, n) = (matches.ranges.rows(), matches.build.len());
        let Some(program) = ProgramArg::of(bound, n, m) else {
            return Ok(None);
        };
        let counts = self.zeroed(m * 4, "match counts")?;
        if n == 0 || m == 0 {
            return Ok(Some(Buffer::cuda(counts, m)));
        }
        let fault = self.zeroed(4, "match counts")?;
        if !matches.tests.is_empty() {
            return self.count_tested(matches, &program, &fault, exists_only, go_on);
        }
        self.in_launches(
            m,
            TOGETHER,
            FIRST_CANDIDATES / n,
            go_on,
            |first, positions| {
                let args = [
                    memory(&matches.ranges.lo)?.into(),
                    memory(&matches.ranges.hi)?.into(),
                    (first as u32).into(),
                    (positions as u32).into(),
                    u32::from(exists_only).into(),
                    0u32.into(),
                    counts.word(first),
                    (&fault).into(),
                ];
                let shape = self.runners(&program, positions);
                // SAFETY: the program's columns are by sorted and by searching position, of which ranges and counts are m; `counts`
                // and `fault` are zero.
                unsafe { self.launch_with("program_count", shape, Some(&program), &args) }
            },
        )?;
        self.check_fault(&fault)?;
        Ok(Some(Buffer::cuda(counts, m)))
    }

    /// The pairs `from .. from + len`; `None` where the program cannot run here.
    pub(crate) fn program_expand(
        self: &Arc<Self>,
        matches: Matches<'_>,
        bound: &BoundProgram<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Pairs>> {
        let (m, n) = (matches.ranges.rows(), matches.build.len());
        let Some(program) = ProgramArg::of(bound, n, m) else {
            return Ok(None);
        };
        if len == 0 {
            return Ok(Some(Pairs {
                probe: Buffer::cuda(self.alloc(0, "output pairs")?, 0),
                build: Buffer::cuda(self.alloc(0, "output pairs")?, 0),
            }));
        }
        let positions = self.window(offsets, from, len)?;
        if !matches.tests.is_empty() {
            return self.expand_tested(matches, &program, offsets, positions, (from, len), go_on);
        }
        let out_sorted = self.alloc(len * 4, "output pairs")?;
        // The counts saw each candidate, so none is for the host.
        let fault = self.zeroed(4, "output pairs")?;
        let tester = Tester {
            count: "program_count",
            expand: "program_expand",
            by: &program,
            fault: Some(&fault),
        };
        let written = Written {
            from,
            len,
            build: &out_sorted,
        };
        let most = FIRST_CANDIDATES / n.max(1);
        self.in_launches(positions.len(), TOGETHER, most, go_on, |first, count| {
            let first = positions.start + first;
            let (shape, positions) = (self.runners(&program, count), first..first + count);
            // SAFETY: the program's columns are by sorted and by searching position, offsets come from program_count.
            unsafe { self.expand_positions(&tester, shape, matches, offsets, positions, written) }
        })?;
        Ok(Some(Pairs {
            probe: self.expand_searching(matches, offsets, from, len)?,
            build: Buffer::cuda(out_sorted, len),
        }))
    }

    /// Counts in pieces of the candidates that tests let through.
    fn count_tested(
        self: &Arc<Self>,
        matches: Matches<'_>,
        program: &ProgramArg,
        fault: &Memory,
        exists_only: bool,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Buffer<u32>>> {
        let m = matches.ranges.rows();
        let Some(counts) = self.zones_count(matches, false, go_on)? else {
            return Ok(None);
        };
        let offsets = self.scan_offsets(&counts)?;
        // One up at the position of each pair that passes, one down behind it: their sums count by position.
        let steps = self.zeroed((m + 1) * 4, "match counts")?;
        let behind = self.sequence(1, m)?;
        self.each_passing(matches, program, &offsets, fault, |_, probe| {
            go_on()?;
            let k = probe.len();
            let ends = self.gather_values(memory(&behind)?, memory(&probe)?, k, 4)?;
            let args = [
                memory(&probe)?.into(),
                (&ends).into(),
                (&steps).into(),
                (k as u32).into(),
            ];
            // SAFETY: ends are m at most, and `steps` holds m + 1 words.
            unsafe { self.launch("range_cover_steps", self.strips(k), &args) }
        })?;
        self.check_fault(fault)?;
        let counts = self.scan(INCLUSIVE_U32, &steps, m, "match counts")?;
        let counts = Buffer::cuda(counts, m);
        if !exists_only {
            return Ok(Some(counts));
        }
        let from_zero = Ranges {
            lo: Buffer::cuda(self.zeroed(m * 4, "match counts")?, m),
            hi: counts,
        };
        self.range_counts(&from_zero, true).map(Some)
    }

    /// Expands what lies in a window of pairs, of which `positions` are the searching ones.
    fn expand_tested(
        self: &Arc<Self>,
        matches: Matches<'_>,
        program: &ProgramArg,
        offsets: &Buffer<u64>,
        positions: Range<usize>,
        (from, len): (u64, usize),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Pairs>> {
        let Some(counts) = self.zones_count_of(matches, positions.clone())? else {
            return Ok(None);
        };
        let candidates = self.scan_offsets(&counts)?;
        let before = self.read_word(memory(offsets)?, positions.start)?;
        // Positions of the pairs from number `before` on, as many as the window reaches to.
        let most = (from - before) as usize + len;
        let build = self.alloc(most * 4, "output pairs")?;
        let probe = self.alloc(most * 4, "output pairs")?;
        let mut at = 0;
        // The counts saw each candidate, so none is for the host.
        let fault = self.zeroed(4, "output pairs")?;
        self.each_passing(matches, program, &candidates, &fault, |s, p| {
            go_on()?;
            let words = s.len().min(most - at);
            self.copy_words(memory(&s)?, &build, at, words)?;
            self.copy_words(memory(&p)?, &probe, at, words)?;
            at += words;
            Ok(())
        })?;
        if at != most {
            return Err(BowtieError::Internal(format!(
                "{at} pairs of a program where {most} were counted"
            )));
        }
        let skip = self.sequence((from - before) as u32, len)?;
        let rows = |positions: &Memory, rows: &Buffer<u32>| -> Result<Buffer<u32>> {
            let within = self.gather_values(positions, memory(&skip)?, len, 4)?;
            let rows = self.gather_values(memory(rows)?, &within, len, 4)?;
            Ok(Buffer::cuda(rows, len))
        };
        Ok(Some(Pairs {
            probe: rows(&probe, &matches.probe.rows)?,
            build: rows(&build, &matches.build.rows)?,
        }))
    }

    /// Calls `with` with the sorted and the searching positions of those candidates that the program lets through, in their
    /// order, a piece of candidates after another. `offsets` number the candidates that pass the tests.
    fn each_passing(
        self: &Arc<Self>,
        matches: Matches<'_>,
        program: &ProgramArg,
        offsets: &Buffer<u64>,
        fault: &Memory,
        mut with: impl FnMut(Buffer<u32>, Buffer<u32>) -> Result<()>,
    ) -> Result<()> {
        let total = self.read_word(memory(offsets)?, offsets.len() - 1)?;
        // Positions come out where rows would.
        let in_order = |len: usize| -> Result<OrderedRows> {
            Ok(OrderedRows {
                rows: self.sequence(0, len)?,
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
            let Some(pairs) = self.zones_expand(by_position, offsets, from, len, &|| Ok(()))?
            else {
                return Err(BowtieError::Internal("tests that were counted".into()));
            };
            let keep = self.zeroed(bitmap_bytes(len), "output pairs")?;
            let args = [
                memory(&pairs.build)?.into(),
                memory(&pairs.probe)?.into(),
                (len as u32).into(),
                (&keep).into(),
                fault.into(),
            ];
            let shape = program.shape(len, 16);
            // SAFETY: positions lie in the program's columns, which are by position; `keep` holds len bits.
            unsafe { self.launch_with("program_filter", shape, Some(program), &args)? };
            with(
                self.select(&keep, len, Some(memory(&pairs.build)?))?,
                self.select(&keep, len, Some(memory(&pairs.probe)?))?,
            )?;
            from += len as u64;
        }
        Ok(())
    }

    /// The first `words` words of `of`, copied to place `at` of `to`.
    fn copy_words(&self, of: &Memory, to: &Memory, at: usize, words: usize) -> Result<()> {
        if words == 0 {
            return Ok(());
        }
        if words * 4 > of.bytes() || (at + words) * 4 > to.bytes() {
            return Err(BowtieError::Internal("a copy past the end".into()));
        }
        self.bind()?;
        let (from, to) = (of.pointer(), to.pointer() + at as u64 * 4);
        // SAFETY: both hold so many words, as was just checked, and are memory of this queue.
        unsafe { result::memcpy_dtod_async(to, from, words * 4, self.stream.cu_stream()) }
            .map_err(|e| failed("copying on the GPU", e))
    }
}
