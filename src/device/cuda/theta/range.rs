//! Range joins without tests: keys of both sides enter; the range of build positions of each probe position, counts and
//! coverage (`kernels/theta/range.cu`), and the row ids of matches (`kernels/theta/expand.cu`) leave.

use std::ops::Range;
use std::sync::Arc;

use crate::device::cuda::columns::scan::{self, INCLUSIVE_U32};
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::Bound;
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// The code of a comparison in `kernels/shared/common.cuh`.
pub(crate) fn op_code(op: Comparison) -> u32 {
    match op {
        Comparison::Lt => 0,
        Comparison::LtEq => 1,
        Comparison::Gt => 2,
        Comparison::GtEq => 3,
        Comparison::Eq => 4,
        Comparison::NotEq => 5,
    }
}

/// The range of build positions that satisfy all `bounds`, per probe position. With segments and `groups` (by probe
/// row) a range begins as the segment of its group. An error for a bound on a build side without keys.
pub(crate) fn range_bounds(
    stream: &Arc<Stream>,
    build: &OrderedRows,
    probe: &OrderedRows,
    bounds: &[Bound<'_>],
    groups: Option<&Buffer<u32>>,
) -> Result<Ranges> {
    let m = probe.len();
    let lo = stream.alloc(m * 4, "range bounds")?;
    let hi = stream.alloc(m * 4, "range bounds")?;
    let rows = memory(&probe.rows)?;
    let (segments, groups) = match (&build.segments, groups) {
        (Some(segments), Some(groups)) => (Some(memory(segments)?), Some(memory(groups)?)),
        _ => (None, None),
    };
    let args = (
        segments.into(),
        groups.into(),
        rows.into(),
        (build.len() as u32).into(),
        (&lo).into(),
        (&hi).into(),
        (m as u32).into(),
    );
    // SAFETY: groups are by row of the probe side, segments by group and one more; `lo` and `hi` hold m words.
    unsafe { stream.launch(kernels::RANGE_BEGIN, Shape::rows(m), &args)? };
    for (i, bound) in bounds.iter().enumerate() {
        // `<>` is not one range: never a bound.
        if bound.op == Comparison::NotEq {
            continue;
        }
        // The probe side is sorted by the words of the first bound: in that order they are read in sequence, and
        // none of them is NULL.
        let (by_row, words, valid) = match &probe.keys {
            Some(ordered) if i == 0 => (None, memory(ordered)?, None),
            _ => (
                Some(rows),
                memory(&bound.probe.values)?,
                valid_memory(bound.probe.valid.as_ref())?,
            ),
        };
        let keys = build
            .keys
            .as_ref()
            .ok_or_else(|| BowtieError::Internal("bounds on an unsorted build side".into()))?;
        let args = (
            memory(keys)?.into(),
            by_row.into(),
            words.into(),
            valid.into(),
            op_code(bound.op).into(),
            u32::from(segments.is_none()).into(),
            (&lo).into(),
            (&hi).into(),
            (m as u32).into(),
        );
        // SAFETY: words and validity are by row of the probe side, or words by position; ranges are inside of the
        // sorted build keys.
        unsafe { stream.launch(kernels::RANGE_NARROW, Shape::rows(m), &args)? };
    }
    Ok(Ranges {
        lo: Buffer::cuda(lo, m),
        hi: Buffer::cuda(hi, m),
    })
}

/// The length of each range; 1 or 0 if `exists_only`.
pub(crate) fn range_counts(
    stream: &Arc<Stream>,
    ranges: &Ranges,
    exists_only: bool,
) -> Result<Buffer<u32>> {
    let m = ranges.rows();
    let counts = stream.alloc(m * 4, "match counts")?;
    let args = (
        memory(&ranges.lo)?.into(),
        memory(&ranges.hi)?.into(),
        (&counts).into(),
        u32::from(exists_only).into(),
        (m as u32).into(),
    );
    // SAFETY: all hold m words.
    unsafe { stream.launch(kernels::RANGE_COUNTS, Shape::rows(m), &args)? };
    Ok(Buffer::cuda(counts, m))
}

/// The length of the range of each probe position of a window; 0 for others.
pub(crate) fn lengths_of(
    stream: &Arc<Stream>,
    ranges: &Ranges,
    window: Range<usize>,
) -> Result<Buffer<u32>> {
    let m = ranges.rows();
    let counts = stream.zeroed(m * 4, "match counts")?;
    if window.is_empty() {
        return Ok(Buffer::cuda(counts, m));
    }
    let args = (
        memory(&ranges.lo)?.word(window.start)?.into(),
        memory(&ranges.hi)?.word(window.start)?.into(),
        counts.word(window.start)?.into(),
        0u32.into(),
        (window.len() as u32).into(),
    );
    // SAFETY: all hold m words, and the window is inside of them.
    unsafe { stream.launch(kernels::RANGE_COUNTS, Shape::rows(window.len()), &args)? };
    Ok(Buffer::cuda(counts, m))
}

/// The number of ranges that hold each build row, by row id below `rows`.
pub(crate) fn cover(
    stream: &Arc<Stream>,
    build: &OrderedRows,
    ranges: &Ranges,
    rows: usize,
) -> Result<Buffer<u32>> {
    let (n, m) = (build.len(), ranges.rows());
    let steps = stream.zeroed((n + 1) * 4, "coverage scratch")?;
    let args = (
        memory(&ranges.lo)?.into(),
        memory(&ranges.hi)?.into(),
        (&steps).into(),
        (m as u32).into(),
    );
    // SAFETY: ranges end at n at most, and `steps` holds n + 1 words.
    unsafe { stream.launch(kernels::RANGE_COVER_STEPS, stream.strips(m), &args)? };
    let covering = match n {
        0 => stream.zeroed(0, "coverage scratch")?,
        n => scan::scan(stream, INCLUSIVE_U32, &steps, n, "coverage scratch")?,
    };
    let out = stream.zeroed(rows * 4, "coverage")?;
    let args = (
        (&covering).into(),
        memory(&build.rows)?.into(),
        (&out).into(),
        (n as u32).into(),
    );
    // SAFETY: row ids are below `rows`.
    unsafe { stream.launch(kernels::RANGE_COVER_SCATTER, Shape::rows(n), &args)? };
    Ok(Buffer::cuda(out, rows))
}

/// The end of the output batch that begins at match `from`: the end of a probe row's matches, after at most
/// `target` matches, or after at most `most` if one row has more than `target`.
pub(crate) fn piece_end(
    stream: &Arc<Stream>,
    offsets: &Buffer<u64>,
    from: u64,
    target: u64,
    most: u64,
) -> Result<u64> {
    let out = stream.alloc(8, "the end of an output batch")?;
    let args = (
        memory(offsets)?.into(),
        (offsets.len() as u32 - 1).into(),
        from.into(),
        target.into(),
        most.into(),
        (&out).into(),
    );
    // SAFETY: offsets are one more than the positions.
    unsafe { stream.launch(kernels::EXPAND_PIECE_END, Shape::blocks_of(1, 1, 32), &args)? };
    stream.read_word(&out, 0)
}

/// The launch shape of an expansion of `items` matches and positions together.
pub(crate) fn expansion(stream: &Stream, items: usize) -> Shape {
    let mut shape = Shape::blocks_of(items, 4092, 256);
    shape.blocks = shape.blocks.min(5 * stream.gpu.multiprocessors);
    shape
}

/// The row ids of matches number `from .. from + len` of ranges without tests. `offsets` are the scanned counts.
pub(crate) fn expand_ranges(
    stream: &Arc<Stream>,
    build: &OrderedRows,
    probe: &OrderedRows,
    ranges: &Ranges,
    offsets: &Buffer<u64>,
    from: u64,
    len: usize,
) -> Result<Pairs> {
    expand_rows(
        stream,
        [&build.rows, &probe.rows],
        ranges,
        offsets,
        from,
        len,
    )
}

/// The same by the row ids of the build positions and of the probe positions.
pub(crate) fn expand_rows(
    stream: &Arc<Stream>,
    [build, probe]: [&Buffer<u32>; 2],
    ranges: &Ranges,
    offsets: &Buffer<u64>,
    from: u64,
    len: usize,
) -> Result<Pairs> {
    let out_probe = stream.alloc(len * 4, "join output rows")?;
    let out_build = stream.alloc(len * 4, "join output rows")?;
    let args = (
        memory(&ranges.lo)?.into(),
        memory(probe)?.into(),
        memory(build)?.into(),
        memory(offsets)?.into(),
        (ranges.rows() as u32).into(),
        from.into(),
        (len as u32).into(),
        (&out_probe).into(),
        (&out_build).into(),
    );
    // SAFETY: offsets are the scanned lengths of the ranges, so match numbers lead to positions inside of them.
    unsafe {
        stream.launch(
            kernels::EXPAND_RANGES,
            expansion(stream, len + ranges.rows()),
            &args,
        )?
    };
    Ok(Pairs {
        probe: Buffer::cuda(out_probe, len),
        build: Buffer::cuda(out_build, len),
    })
}
