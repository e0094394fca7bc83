//! Zone maps of build keys, and the walk over them that counts and expands the candidates that pass all tests
//! (`kernels/theta/zones.cu`). Ranges and tests enter; counts per probe position, or row ids of matches, leave.
//! The host fallback is `matches_on_host.rs`.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use cudarc::driver::DeviceRepr;

use crate::device::cuda::columns::rows;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{ByValue, U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::range::op_code;
use crate::device::cuda::theta::testers::{self, CountArgs, ExpandArgs, Tester, Written};
use crate::device::cuda::theta::wavelet_index::Wavelet;
use crate::device::data::buffer::Buffer;
use crate::device::data::keys::Keys;
use crate::device::data::matches::Matches;
use crate::device::data::ranges::{OrderedRows, Pairs};
use crate::error::Result;

/// Positions of a block of the lowest level.
const LEAF: usize = 64;
/// Blocks of one level that are one block of the next.
const FAN_OUT: usize = 8;
/// Levels, and tests, that a kernel takes, at most.
const MAX_LEVELS: usize = 12;
const MAX_TESTS: usize = 8;
/// Probe positions of a block.
pub(crate) const WALKED: usize = 64;
/// Probe positions that are sampled, and sampled leaves of the range of each.
const SAMPLED_POSITIONS: usize = 1 << 14;
const SAMPLED_LEAVES: usize = 16;

/// Candidates of the first launch of a walk or of brute force: some 25 ms on an H200 if it has to test all of them.
pub(crate) const FIRST_CANDIDATES: usize = 1 << 36;

/// Keys at each position, and their zone maps: level 0 has a zone per 64 keys, each further level one per 8 zones of
/// the level below, the last at most 8.
#[derive(Debug)]
pub(crate) struct ZonedKeys {
    pub(crate) keys: Buffer<u64>,
    pub(crate) levels: Vec<Zones>,
    /// A wavelet tree over the keys: built when it is first needed, and kept as long as the keys are.
    pub(crate) wavelet: OnceLock<Wavelet>,
}

/// The least and the greatest key of each block of one level.
#[derive(Debug)]
pub(crate) struct Zones {
    pub(crate) min: Memory,
    pub(crate) max: Memory,
}

/// Gathers `keys` (by row) into the order of `build`, and builds their zone maps.
pub(crate) fn zone_keys(
    stream: &Arc<Stream>,
    keys: &Keys,
    build: &OrderedRows,
) -> Result<ZonedKeys> {
    let n = build.len();
    let ordered = rows::gather_values(stream, memory(&keys.values)?, memory(&build.rows)?, n, 8)?;
    let mut levels: Vec<Zones> = vec![];
    let mut len = n;
    loop {
        let block = if levels.is_empty() { LEAF } else { FAN_OUT };
        let blocks = len.div_ceil(block);
        let level = Zones {
            min: stream.alloc(blocks * 8, "zone maps")?,
            max: stream.alloc(blocks * 8, "zone maps")?,
        };
        match levels.last() {
            None => {
                let args = (
                    (&ordered).into(),
                    (len as u32).into(),
                    (&level.min).into(),
                    (&level.max).into(),
                );
                // SAFETY: `ordered` holds len keys; the level has a zone for each 64 of them.
                unsafe {
                    stream.launch(kernels::ZONES_LEAF, Shape::blocks_of(len, 2048, 256), &args)?
                };
            }
            Some(below) => {
                let args = (
                    (&below.min).into(),
                    (&below.max).into(),
                    (len as u32).into(),
                    (&level.min).into(),
                    (&level.max).into(),
                );
                // SAFETY: the level below holds len zones; this level has a zone for each 8 of them.
                unsafe { stream.launch(kernels::ZONES_UP, Shape::each(blocks), &args)? };
            }
        }
        levels.push(level);
        len = blocks;
        if len <= FAN_OUT {
            break;
        }
    }
    Ok(ZonedKeys {
        keys: Buffer::cuda(ordered, n),
        levels,
        wavelet: OnceLock::new(),
    })
}

/// `ZoneTests` of `kernels/theta/zones_walk.cuh`: all tests, and the numbers of levels and of build positions.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct ZoneTests {
    tests: [ZoneTest; MAX_TESTS],
    count: u32,
    levels: u32,
    n: u32,
    unused: u32,
}

/// `ZoneTest` of `kernels/theta/zones_walk.cuh`: addresses of keys and zones, and the comparison.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct ZoneTest {
    build: u64,
    probe: u64,
    min: [u64; MAX_LEVELS],
    max: [u64; MAX_LEVELS],
    op: u64,
}

// SAFETY: plain words in C's layout, as the kernel declares them.
unsafe impl DeviceRepr for ZoneTests {}

/// Tests, bounds of ranges, first position and positions; values by build position, folds, and the numbers of matches.
pub(crate) type ZonesFold = Kernel<(
    ByValue<'static, { size_of::<ZoneTests>() }, 8>,
    U64,
    U64,
    U32,
    U32,
    U64,
    U64,
    U64,
)>;

impl ZoneTests {
    /// The tests as a kernel argument; `None` if there are more tests or levels than a kernel takes.
    pub(crate) fn of(matches: Matches<'_>) -> Result<Option<Self>> {
        let mut all = Self {
            count: matches.tests.len() as u32,
            n: matches.build.len() as u32,
            ..Self::default()
        };
        if matches.tests.len() > MAX_TESTS {
            return Ok(None);
        }
        for (slot, test) in all.tests.iter_mut().zip(matches.tests) {
            let (build, probe) = (on_gpu(test.build)?, on_gpu(test.probe)?);
            if build.levels.len() > MAX_LEVELS {
                return Ok(None);
            }
            all.levels = build.levels.len() as u32;
            slot.build = memory(&build.keys)?.pointer();
            slot.probe = memory(&probe.keys)?.pointer();
            for (level, zones) in build.levels.iter().enumerate() {
                slot.min[level] = zones.min.pointer();
                slot.max[level] = zones.max.pointer();
            }
            slot.op = u64::from(op_code(test.op));
        }
        Ok(Some(all))
    }
}

impl Tester for ZoneTests {
    unsafe fn count(&self, stream: &Stream, shape: Shape, args: CountArgs) -> Result<()> {
        let (lo, hi, first, positions, exists_only, by_slice, counts) = args;
        let zones = self.into();
        let args = (
            zones,
            lo,
            hi,
            first,
            positions,
            exists_only,
            by_slice,
            counts,
        );
        // SAFETY: the caller's promise.
        unsafe { stream.launch(kernels::ZONES_COUNT, shape, &args) }
    }

    unsafe fn expand(&self, stream: &Stream, shape: Shape, args: ExpandArgs) -> Result<()> {
        let (lo, hi, offsets, slices, rows, first, positions, from, len, out) = args;
        let zones = self.into();
        let args = (
            zones, lo, hi, offsets, slices, rows, first, positions, from, len, out,
        );
        // SAFETY: the caller's promise.
        unsafe { stream.launch(kernels::ZONES_EXPAND, shape, &args) }
    }
}

/// The zone maps, which a GPU must have built.
pub(crate) fn on_gpu(zoned: &crate::device::data::structures::ZonedKeys) -> Result<&ZonedKeys> {
    zoned.0.get()
}

/// The number of slices of the build side, so that few probe positions fill the GPU too.
fn slices(stream: &Stream, positions: usize, build: usize) -> u32 {
    let warps = positions.div_ceil(32).max(1);
    let wanted = (64 * stream.gpu.multiprocessors as usize).div_ceil(warps);
    // A slice much shorter than this costs more to begin than to walk.
    wanted.min(build / (64 * LEAF)).clamp(1, 1024) as u32
}

/// The launch shape of a walk for `positions` probe positions.
pub(crate) fn walkers(stream: &Stream, positions: usize, build: usize) -> Shape {
    Shape {
        slices: slices(stream, positions, build),
        ..Shape::blocks_of(positions, WALKED, 64)
    }
}

/// The number of tests of a key against a leaf in a walk that does not end early, estimated by a sample; infinite
/// with more tests than a kernel takes.
pub(crate) fn sampled_leaf_tests(stream: &Arc<Stream>, matches: Matches<'_>) -> Result<f64> {
    let Some(tests) = ZoneTests::of(matches)? else {
        return Ok(f64::INFINITY);
    };
    let m = matches.ranges.rows();
    let sample = m.min(SAMPLED_POSITIONS);
    let undecided = stream.zeroed(8, "a sample")?;
    let args = (
        (&tests).into(),
        memory(&matches.ranges.lo)?.into(),
        memory(&matches.ranges.hi)?.into(),
        (m as u32).into(),
        (sample as u32).into(),
        (&undecided).into(),
    );
    let shape = Shape::each(sample * SAMPLED_LEAVES);
    // SAFETY: as for zones_count; `undecided` is one word, which is zero.
    unsafe { stream.launch(kernels::ZONES_SAMPLE, shape, &args)? };
    let leaves = stream.read_word(&undecided, 0)? as f64 / SAMPLED_LEAVES as f64;
    Ok(leaves * (m as f64 / sample.max(1) as f64))
}

/// The number of candidates per probe position that pass all tests, at most 1 if `exists_only`; `None` for more
/// tests than a kernel takes. `check_cancelled` is called between launches; its error ends the count.
pub(crate) fn zones_count(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    exists_only: bool,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Option<Buffer<u32>>> {
    let Some(tests) = ZoneTests::of(matches)? else {
        return Ok(None);
    };
    let (m, n) = (matches.ranges.rows(), matches.build.len());
    let counts = stream.zeroed(m * 4, "match counts")?;
    let most = FIRST_CANDIDATES / n.max(1);
    stream.in_launches(m, WALKED, most, check_cancelled, |first, positions| {
        let args = (
            memory(&matches.ranges.lo)?.into(),
            memory(&matches.ranges.hi)?.into(),
            (first as u32).into(),
            (positions as u32).into(),
            u32::from(exists_only).into(),
            0u32.into(),
            counts.word(first)?.into(),
        );
        let shape = walkers(stream, positions, n);
        // SAFETY: the tests' keys are by build and by probe position; from position `first` on `counts` holds as
        // many words as there are positions, all zero.
        unsafe { tests.count(stream, shape, args) }
    })?;
    Ok(Some(Buffer::cuda(counts, m)))
}

/// The same, of the probe positions of a window only; 0 for others.
pub(crate) fn zones_count_of(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    window: Range<usize>,
) -> Result<Option<Buffer<u32>>> {
    let Some(tests) = ZoneTests::of(matches)? else {
        return Ok(None);
    };
    let m = matches.ranges.rows();
    let counts = stream.zeroed(m * 4, "match counts")?;
    let args = (
        memory(&matches.ranges.lo)?.into(),
        memory(&matches.ranges.hi)?.into(),
        (window.start as u32).into(),
        (window.len() as u32).into(),
        0u32.into(),
        0u32.into(),
        counts.word(window.start)?.into(),
    );
    let shape = walkers(stream, window.len(), matches.build.len());
    // SAFETY: as for zones_count; the window is inside of the m positions, and its counts begin at those of its
    // first position.
    unsafe { tests.count(stream, shape, args)? };
    Ok(Some(Buffer::cuda(counts, m)))
}

/// The row ids of matches number `from .. from + len`; `None` for more tests than a kernel takes. `offsets` are the
/// scanned counts of [`zones_count`].
pub(crate) fn zones_expand(
    stream: &Arc<Stream>,
    matches: Matches<'_>,
    offsets: &Buffer<u64>,
    from: u64,
    len: usize,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Option<Pairs>> {
    let Some(tests) = ZoneTests::of(matches)? else {
        return Ok(None);
    };
    let n = matches.build.len();
    let out_build = stream.alloc(len * 4, "join output rows")?;
    if len > 0 {
        let window = testers::window(stream, offsets, from, len)?;
        let most = FIRST_CANDIDATES / n.max(1);
        let written = Written {
            from,
            len,
            build: &out_build,
        };
        stream.in_launches(
            window.len(),
            WALKED,
            most,
            check_cancelled,
            |first, positions| {
                let first = window.start + first;
                let (shape, positions) = (walkers(stream, positions, n), first..first + positions);
                // SAFETY: the tests' keys are by build and by probe position, offsets come from zones_count.
                unsafe {
                    testers::expand_positions(
                        stream, &tests, shape, matches, offsets, positions, written,
                    )
                }
            },
        )?;
    }
    let probe = match len {
        0 => Buffer::cuda(stream.alloc(0, "join output rows")?, 0),
        len => testers::expand_probe(stream, matches, offsets, from, len)?,
    };
    Ok(Some(Pairs {
        probe,
        build: Buffer::cuda(out_build, len),
    }))
}
