//! Kernels that test candidates, launched for some probe positions at a time. Ranges of candidates and scanned match counts enter;
//! build rows of the matches leave. The matches of few probe positions are found in slices of the build side, which are counted first.

use std::ops::Range;
use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::range;
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::Matches;
use crate::error::Result;

/// A pair of kernels that decide on the candidates of ranges, with what they decide by.
pub(crate) trait Tester {
    /// Launches the kernel that counts the candidates that pass, by probe position.
    ///
    /// # Safety
    /// As of [`Stream::launch`].
    unsafe fn count(&self, stream: &Stream, shape: Shape, args: CountArgs) -> Result<()>;

    /// Launches the kernel that writes the build rows of the candidates that pass.
    ///
    /// # Safety
    /// As of [`Stream::launch`].
    unsafe fn expand(&self, stream: &Stream, shape: Shape, args: ExpandArgs) -> Result<()>;
}

/// Bounds of ranges by probe position, the first position and their number, whether one match is enough, whether each
/// slice of the build side has counts of its own, and counts.
pub(crate) type CountArgs = (U64, U64, U32, U32, U32, U32, U64);

/// Bounds of ranges by probe position, offsets of the matches, counts by slice (or none), build rows, the first position
/// and their number, the first match and their number, and build rows of the matches.
pub(crate) type ExpandArgs = (U64, U64, U64, U64, U64, U32, U32, U64, U32, U64);

/// The output of a window of matches.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    /// The number of the first match.
    pub from: u64,
    /// The number of matches.
    pub len: usize,
    /// Memory for the build row of each.
    pub build: &'a Memory,
}

/// The range of probe positions from the first to the last one with a match among those numbered
/// `from .. from + len`.
pub(crate) fn window(
    stream: &Arc<Stream>,
    offsets: &Buffer<u64>,
    from: u64,
    len: usize,
) -> Result<Range<usize>> {
    let window = stream.alloc(8, "join output rows")?;
    let args = (
        memory(offsets)?.into(),
        (offsets.len() as u32 - 1).into(),
        from.into(),
        (from + len as u64).into(),
        (&window).into(),
    );
    // SAFETY: offsets are one more than the positions; the window is below their total.
    unsafe { stream.launch(kernels::EXPAND_WINDOW, Shape::blocks_of(1, 1, 32), &args)? };
    let window = stream.read_word(&window, 0)?;
    let (first, end) = (window as u32 as usize, (window >> 32) as usize);
    Ok(first..end.max(first))
}

/// The probe rows of the matches `from .. from + len`.
pub(crate) fn expand_probe(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    offsets: &Buffer<u64>,
    from: u64,
    len: usize,
) -> Result<Buffer<u32>> {
    let m = matches.ranges.rows();
    let out = stream.alloc(len * 4, "join output rows")?;
    let args = (
        memory(&matches.probe.rows)?.into(),
        memory(offsets)?.into(),
        (m as u32).into(),
        from.into(),
        (len as u32).into(),
        (&out).into(),
    );
    // SAFETY: offsets are one more than the probe positions; `out` holds len words.
    unsafe {
        stream.launch(
            kernels::EXPAND_PROBE,
            range::expansion(stream, len + m),
            &args,
        )?
    };
    Ok(Buffer::cuda(out, len))
}

/// Writes the build rows of the matches of some probe positions in a window, each at its place. `shape` is the launch
/// shape for these positions.
///
/// # Safety
/// The addresses in the tester hold as many words as there are build and probe positions; `offsets` come from its
/// counts.
pub(crate) unsafe fn expand_positions(
    stream: &Arc<Stream>,
    tester: &dyn Tester,
    shape: Shape,
    matches: Matches<'_>,
    offsets: &Buffer<u64>,
    positions: Range<usize>,
    written: Written<'_>,
) -> Result<()> {
    let (first, count) = (positions.start as u32, positions.len());
    let [lo, hi] = [memory(&matches.ranges.lo)?, memory(&matches.ranges.hi)?];
    let slices = match shape.slices {
        1 => None,
        slices => {
            let counts = stream.zeroed(slices as usize * count * 4, "join output rows")?;
            let args = (
                lo.into(),
                hi.into(),
                first.into(),
                (count as u32).into(),
                0u32.into(),
                1u32.into(),
                (&counts).into(),
            );
            // SAFETY: the caller's promise; `counts` holds a word for each slice and position.
            unsafe { tester.count(stream, shape, args)? };
            let args = ((&counts).into(), (count as u32).into(), slices.into());
            // SAFETY: the same.
            unsafe { stream.launch(kernels::ZONES_SLICE_OFFSETS, Shape::each(count), &args)? };
            Some(counts)
        }
    };
    let args = (
        lo.into(),
        hi.into(),
        memory(offsets)?.into(),
        slices.as_ref().into(),
        memory(&matches.build.rows)?.into(),
        first.into(),
        (count as u32).into(),
        written.from.into(),
        (written.len as u32).into(),
        written.build.into(),
    );
    // SAFETY: the caller's promise: each match has its place in what is written.
    unsafe { tester.expand(stream, shape, args) }
}
