//! Match counts by brute force: every pair of a probe and a build position is tested (`kernels/theta/tiles.cu`).
//! `choose_count.rs` decides when.

use std::sync::Arc;

use cudarc::driver::DeviceRepr;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{ByValue, U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::zone_map::{FIRST_CANDIDATES, on_gpu};
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::Matches;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;

/// Picoseconds per tested pair on an H200 under 1, 2, 3 tests, if the keys of a strip are far apart. If they are within
/// 2^31 of each other, it is half of that.
const PAIR: [f64; 3] = [0.134, 0.257, 0.43];
/// Picoseconds of a launch and of the sample that decides on it.
const BEGIN: f64 = 3e7;

/// Probe positions of a block.
const STRIP: usize = 2048;
/// Build positions of a slice, at least.
const SLICE: usize = 4096;
/// Blocks per multiprocessor.
const BLOCKS: usize = 16;

/// The array of `Comparison` in `kernels/theta/tiles_strip.cuh`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct PairTests<const TESTS: usize>([PairTest; TESTS]);

/// `Comparison` of `kernels/theta/tiles_strip.cuh`: addresses of the keys by probe and by build position, and the mask
/// of the orders of two keys that pass.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct PairTest {
    probe: u64,
    build: u64,
    mask: u32,
    unused: u32,
}

// SAFETY: plain words in C's layout, as the kernels declare them.
unsafe impl<const TESTS: usize> DeviceRepr for PairTests<TESTS> {}

/// The orders of (probe key, build key) for which `build OP probe` holds: 1 for less, 2 for equal, 4 for greater, or a
/// sum of them.
fn mask(op: Comparison) -> u32 {
    match op {
        Comparison::Lt => 4,
        Comparison::LtEq => 6,
        Comparison::Gt => 1,
        Comparison::GtEq => 3,
        Comparison::Eq => 2,
        Comparison::NotEq => 5,
    }
}

/// Picoseconds that testing every pair takes. `None` if that does not answer the question (the ranges are not the whole
/// build side, or one match is enough), if there is a compiled filter, or if a test is no inequality or one too many
/// for the kernels.
pub(crate) fn cost(matches: Matches<'_>, exists_only: bool) -> Option<f64> {
    let whole = matches.build.keys.is_none() && matches.build.segments.is_none();
    let fast = matches.tests.iter().all(|test| test.op.is_inequality());
    if exists_only || !whole || !fast || matches.program.is_some() {
        return None;
    }
    let pair = PAIR.get(matches.tests.len().checked_sub(1)?)?;
    Some(BEGIN + pair * matches.build.len() as f64 * matches.ranges.rows() as f64)
}

/// The launch shape for `positions` probe positions; few of them are spread over slices of the build side.
fn tiles(stream: &Stream, positions: usize, build: usize) -> Shape {
    let strips = positions.div_ceil(STRIP).max(1);
    let wanted = (BLOCKS * stream.gpu.multiprocessors as usize).div_ceil(strips);
    Shape {
        slices: wanted.min(build / SLICE).max(1) as u32,
        ..Shape::blocks_of(positions, STRIP, 256)
    }
}

/// The match count of each probe position under 1 to 3 tests of all build positions. `check_cancelled` is called between
/// launches; its error ends the count.
pub(crate) fn tiles_count(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Buffer<u32>> {
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let counts = stream.zeroed(m * 4, "match counts")?;
    if n == 0 {
        return Ok(Buffer::cuda(counts, m));
    }
    match matches.tests.len() {
        1 => tiles_add::<1, _>(
            stream,
            kernels::TILES_ROW_COUNTS1_U64,
            matches,
            &counts,
            check_cancelled,
        )?,
        2 => tiles_add::<2, _>(
            stream,
            kernels::TILES_ROW_COUNTS2_U64,
            matches,
            &counts,
            check_cancelled,
        )?,
        3 => tiles_add::<3, _>(
            stream,
            kernels::TILES_ROW_COUNTS3_U64,
            matches,
            &counts,
            check_cancelled,
        )?,
        tests => {
            let what = format!("no kernel has {tests} tests");
            return Err(BowtieError::Internal(what));
        }
    }
    Ok(Buffer::cuda(counts, m))
}

/// Adds the match counts under `TESTS` tests to `counts`.
fn tiles_add<const TESTS: usize, const BYTES: usize>(
    stream: &Arc<Stream>,
    kernel: Kernel<(ByValue<'_, BYTES, 8>, U32, U32, U64)>,
    matches: Matches<'_>,
    counts: &Memory,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let mut tests = PairTests([PairTest::default(); TESTS]);
    for (slot, test) in tests.0.iter_mut().zip(matches.tests) {
        slot.probe = memory(&on_gpu(test.probe)?.keys)?.pointer();
        slot.build = memory(&on_gpu(test.build)?.keys)?.pointer();
        slot.mask = mask(test.op);
    }
    stream.in_launches(
        m,
        STRIP,
        FIRST_CANDIDATES / n,
        check_cancelled,
        |first, positions| {
            let mut part = tests;
            for test in &mut part.0 {
                test.probe += first as u64 * 8;
            }
            let args = (
                (&part).into(),
                (positions as u32).into(),
                (n as u32).into(),
                counts.word(first)?.into(),
            );
            let shape = tiles(stream, positions, n);
            // SAFETY: keys are by probe and by build position; from position `first` on there are as many probe keys as
            // positions, and as many counts, all zero.
            unsafe { stream.launch(kernel, shape, &args) }
        },
    )
}
