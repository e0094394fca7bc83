//! Merge joins of two presorted sides (`kernels/semi/merge.cuh`): no side is sorted, hashed or partitioned, and each is
//! read once. Key and payload columns enter; joined columns leave. `semi/presorted.rs` keeps probe rows by the same walk.
//!
//! ```text
//! build rows that may match ─► look at a few keys: sorted? ─► cuts ─► a tile of both sides per block ─► output rows
//! ```
//!
//! Tables are often in the order of a key, of a time or of a clustering column; and \[D\]'s operators read sorted
//! relations only. A kernel looks at a few hundred keys first; the host reads its result while cuts are found. The join
//! kernel checks on the way whether all keys are sorted and whether build keys are unique. If not, its output is
//! dropped, and a strategy for unsorted keys follows.

use std::sync::Arc;

use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::column_sources::{ColumnSources, Sources};
use crate::device::cuda::equi::materialize::{self, Output, descriptors};
use crate::device::cuda::equi::output;
use crate::device::cuda::equi::partition::{self, Partitioned};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::arguments::{Arguments, U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::staging::pinned_word::PinnedWord;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::data::results::Joined;
use crate::device::presorted::PresortedKeys;
use crate::error::Result;
use crate::ir::strategies::Materialization;

/// Units of 16 bytes that the rows of a tile fill, and bytes of the tile's shared memory without its list
/// (`kernels/semi/merge_tile.cuh`).
const TILE_UNITS: usize = 4 * 256 - 36;
const TILE_SHARED: usize = TILE_UNITS * 16 + 128;
/// Units of a block; a tile's list has an entry of 4 bytes for each key in all of them.
const LISTED_UNITS: usize = 4 * 256;
/// Tiles whose cuts a block finds, one per thread.
const CUTS: usize = 64;

/// Two sides that seem to be sorted, as kernels take them.
pub(crate) struct Sides<'a> {
    /// The build keys from row `offset` on that may match, at a multiple of 16 bytes.
    build: Part<'a>,
    pub(crate) offset: usize,
    pub(crate) build_rows: usize,
    probe: Part<'a>,
    pub(crate) probe_rows: usize,
    pub(crate) width: Width,
    is_signed: bool,
}

/// Kernels for keys of 4 bytes with and without a sign, and of 8 bytes with and without.
pub(crate) type Kernels<A> = [Kernel<A>; 4];
/// Build keys and their number, probe keys and their number, and what is found.
type OfSides = (U64, U32, U64, U32, U64);
/// The sides, the number of tiles, and the cuts.
type OfCuts = (U64, U32, U64, U32, U32, U64);
/// The sides, the cuts, build columns and their number, probe columns and their number, the first build row, and the
/// output: keys, the most rows, the number of rows, and the status.
#[rustfmt::skip]
type OfJoin = (U64, U32, U64, U32, U64, U64, U32, U64, U32, U32, U64, U64, U64, U64);

const RANGE: Kernels<OfSides> = [
    kernels::MERGE32_RANGE_I32,
    kernels::MERGE32_RANGE_U32,
    kernels::MERGE64_RANGE_I64,
    kernels::MERGE64_RANGE_U64,
];
const SAMPLE: Kernels<OfSides> = [
    kernels::MERGE32_LOOK_I32,
    kernels::MERGE32_LOOK_U32,
    kernels::MERGE64_LOOK_I64,
    kernels::MERGE64_LOOK_U64,
];
const CUT: Kernels<OfCuts> = [
    kernels::MERGE32_CUTS_I32,
    kernels::MERGE32_CUTS_U32,
    kernels::MERGE64_CUTS_I64,
    kernels::MERGE64_CUTS_U64,
];
const JOIN: Kernels<OfJoin> = [
    kernels::MERGE32_JOIN_I32,
    kernels::MERGE32_JOIN_U32,
    kernels::MERGE64_JOIN_I64,
    kernels::MERGE64_JOIN_U64,
];
impl<'a> Sides<'a> {
    /// Sides that the join sorted by mixed keys.
    pub(crate) fn sorted(build: &'a Partitioned, probe: &'a Partitioned) -> Self {
        Self {
            build: (&build.keys).into(),
            offset: 0,
            build_rows: build.rows,
            probe: (&probe.keys).into(),
            probe_rows: probe.rows,
            width: build.width,
            is_signed: false,
        }
    }

    fn kernel<A>(&self, of: Kernels<A>) -> Kernel<A> {
        match (self.width, self.is_signed) {
            (Width::Four, true) => of[0],
            (Width::Four, false) => of[1],
            (Width::Eight, true) => of[2],
            (Width::Eight, false) => of[3],
        }
    }

    /// The first arguments of all kernels.
    pub(crate) fn args(&self) -> (U64, U32, U64, U32) {
        (
            self.build.into(),
            (self.build_rows as u32).into(),
            self.probe.into(),
            (self.probe_rows as u32).into(),
        )
    }

    /// Rows of a tile, of both sides together.
    fn tile(&self) -> usize {
        TILE_UNITS * 16 / self.width.bytes()
    }

    /// Whether the sides are too long for the kernels: a step over both sides, up to the end of the last tile, is a
    /// number of 32 bits.
    pub(crate) fn are_long(&self) -> bool {
        self.build_rows + self.probe_rows + self.tile() > u32::MAX as usize
    }

    fn tiles(&self) -> usize {
        (self.build_rows + self.probe_rows).div_ceil(self.tile())
    }

    fn shape(&self) -> Shape {
        Shape {
            shared: (TILE_SHARED + LISTED_UNITS * 16 / self.width.bytes() * 4) as u32,
            ..Shape::blocks_of(self.tiles(), 1, 256)
        }
    }
}

/// The columns that were carried through the sort, as sources for the join.
fn carried(side: &Partitioned) -> Sources<'_> {
    let columns = side.columns.iter();
    columns
        .map(|column| (Some(column.into()), column.bytes() / side.rows))
        .collect()
}

/// The sides as kernels take them and the [`cuts`] between their tiles. `None` where [`merged_sides`] has none, or a sample of the keys
/// is unsorted. It waits for the sample alone: the GPU finds cuts meanwhile.
pub(crate) fn cut_sides<'a>(
    device: &CudaDevice,
    keys: PresortedKeys<'a>,
) -> Result<Option<(Sides<'a>, Memory)>> {
    let Some(sides) = merged_sides(device, keys)? else {
        return Ok(None);
    };
    let sample = sample_order(&device.stream, &sides, keys.known)?;
    let cuts = cuts(&device.stream, &sides)?;
    let ascend = match sample {
        Some(sample) => sample.read()? == 0,
        None => true,
    };
    Ok(ascend.then_some((sides, cuts)))
}

/// Materialises the inner join of two presorted sides with unique build keys. `None` if keys are not sorted, build
/// keys not unique, or the types without a kernel.
pub(crate) fn merged_pairs(
    device: &CudaDevice,
    keys: PresortedKeys<'_>,
    materialization: Option<Materialization>,
    build_payload: &[&Column],
    payload: &[&Column],
) -> Result<Option<Joined>> {
    let stream = &device.stream;
    let Some((sides, cuts)) = cut_sides(device, keys)? else {
        return Ok(None);
    };
    let how = materialization.unwrap_or(Materialization::Gftr);
    let build_origins = ColumnSources::of(stream, build_payload, None, how)?;
    let origins = ColumnSources::of(stream, payload, Some(keys.probe), how)?;
    let capacity = (sides.probe_rows, sides.width);
    let output = materialize::allocate_matches(
        stream,
        &build_origins,
        build_payload,
        &origins,
        payload,
        capacity,
    )?;
    let of_build = build_origins.in_row_order(build_payload);
    let of_build = of_build.into_iter().map(|(values, bytes)| {
        // Row ids are counted from the offset by the kernel.
        let from = values.map(|values| values.after(sides.offset * bytes));
        Ok((from.transpose()?, bytes))
    });
    let of_build: Sources<'_> = of_build.collect::<Result<_>>()?;
    let of_probe = origins.in_row_order(payload);
    let pairs = walk_to_join(stream, &sides, &cuts, (&of_build, &of_probe), &output)?;
    let Some(pairs) = pairs else {
        return Ok(None);
    };
    let (build, probe) = ((&build_origins, build_payload), (&origins, payload));
    output::materialize_output(device, build, probe, Some(output), pairs).map(Some)
}

/// The sides as kernels take them. `None` for types without a kernel, for NULLs, and for too few or too many rows.
/// If the order is known, build rows that cannot match are cut off.
fn merged_sides<'a>(device: &CudaDevice, keys: PresortedKeys<'a>) -> Result<Option<Sides<'a>>> {
    let (build_rows, probe_rows) = (keys.build.rows(), keys.probe.rows());
    let rows = build_rows + probe_rows;
    if build_rows.min(probe_rows) == 0 || (rows < device.least_merged_rows && !keys.known) {
        return Ok(None);
    }
    let (Some(build), Some(probe)) = (Number::of(keys.build), Number::of(keys.probe)) else {
        return Ok(None);
    };
    let of = &build.values.data_type;
    let width = match width(of) {
        Some(4) => Width::Four,
        Some(8) => Width::Eight,
        _ => return Ok(None),
    };
    let Some(sign) = build.sign else {
        return Ok(None);
    };
    let has_nulls = build.values.valid.is_some() || probe.values.valid.is_some();
    let mut sides = Sides {
        build: (&build.values.values).into(),
        offset: 0,
        build_rows,
        probe: (&probe.values.values).into(),
        probe_rows,
        width,
        is_signed: sign != 0,
    };
    if has_nulls || sides.are_long() || *of != probe.values.data_type {
        return Ok(None);
    }
    if keys.known {
        let (first, end) = matching(&device.stream, &sides)?;
        // From the start of the unit of 16 bytes that holds the first of them.
        sides.offset = first * width.bytes() / 16 * 16 / width.bytes();
        sides.build_rows = end.max(sides.offset) - sides.offset;
        sides.build = sides.build.after(sides.offset * width.bytes())?;
    }
    Ok(Some(sides))
}

/// The range `first .. end` of build rows that may match, if both sides are sorted.
fn matching(stream: &Arc<Stream>, sides: &Sides<'_>) -> Result<(usize, usize)> {
    let found = stream.alloc(8, "a range of keys")?;
    let (build, n, probe, m) = sides.args();
    let args = (build, n, probe, m, (&found).into());
    let shape = Shape::blocks_of(1, 1, CUTS as u32);
    // SAFETY: both sides have as many keys of the kernel's width as rows, at least one; `found` holds the two words
    // that are written.
    unsafe { stream.launch(sides.kernel(RANGE), shape, &args)? };
    let mut words = [0; 8];
    stream.read_few(&mut words, &found, 0)?;
    let word = |at: usize| {
        let bytes = words[at * 4..][..4].try_into();
        u32::from_le_bytes(bytes.unwrap_or_default()) as usize
    };
    Ok((word(0), word(1)))
}

/// Starts a check of a few hundred keys for their order; `None` if the order is known. Unsorted sides then cost
/// little more than this check.
fn sample_order(stream: &Stream, sides: &Sides<'_>, known: bool) -> Result<Option<PinnedWord>> {
    if known {
        return Ok(None);
    }
    let shape = Shape::blocks_of(1, 1, CUTS as u32);
    let sample = stream.pinned_word(|seen| {
        let (build, n, probe, m) = sides.args();
        let args = (build, n, probe, m, seen);
        // SAFETY: both sides have as many keys of the kernel's width as rows; a word is written, or none.
        unsafe { stream.launch(sides.kernel(SAMPLE), shape, &args) }
    });
    sample.map(Some)
}

/// The number of build rows before each tile, and before the end of the last one.
fn cuts(stream: &Arc<Stream>, sides: &Sides<'_>) -> Result<Memory> {
    let tiles = sides.tiles();
    let cuts = stream.alloc((tiles + 1) * 4, "tile boundaries")?;
    let (build, n, probe, m) = sides.args();
    let args = (build, n, probe, m, (tiles as u32).into(), (&cuts).into());
    let shape = Shape::blocks_of((tiles + 1).div_ceil(CUTS), 1, CUTS as u32);
    // SAFETY: both sides have as many keys of the kernel's width as rows, and there is a word for each cut.
    unsafe { stream.launch(sides.kernel(CUT), shape, &args)? };
    Ok(cuts)
}

/// The matches of two sides sorted by mixed keys, if build keys are unique, with their number; the output has room
/// for one match per probe row. `None` if build keys have duplicates or the sides are too long.
pub(crate) fn unique_pairs(
    stream: &Arc<Stream>,
    (build, probe): (&Partitioned, &Partitioned),
    (build_origins, build_payload): (&ColumnSources, &[&Column]),
    (origins, payload): (&ColumnSources, &[&Column]),
) -> Result<Option<(Output, usize)>> {
    let sides = Sides::sorted(build, probe);
    if sides.are_long() {
        return Ok(None);
    }
    let capacity = (probe.rows, probe.width);
    let output = materialize::allocate_matches(
        stream,
        build_origins,
        build_payload,
        origins,
        payload,
        capacity,
    )?;
    let cuts = cuts(stream, &sides)?;
    let columns = (&carried(build), &carried(probe));
    let rows = walk_to_join(stream, &sides, &cuts, columns, &output)?;
    Ok(rows.map(|rows| (output, rows)))
}

/// Launches the join: the number of matches; `None` if keys are not sorted or build keys not unique.
fn walk_to_join(
    stream: &Arc<Stream>,
    sides: &Sides<'_>,
    cuts: &Memory,
    (build, probe): (&Sources<'_>, &Sources<'_>),
    output: &Output,
) -> Result<Option<usize>> {
    let build_columns = partition::upload_descriptors(stream, &descriptors(build, &output.build))?;
    let probe_columns = partition::upload_descriptors(stream, &descriptors(probe, &output.probe))?;
    let (build_keys, n, probe_keys, m) = sides.args();
    let (keys, capacity, rows, status) = output.args()?;
    let args = (
        build_keys,
        n,
        probe_keys,
        m,
        cuts.into(),
        (&build_columns).into(),
        (build.len() as u32).into(),
        (&probe_columns).into(),
        (probe.len() as u32).into(),
        (sides.offset as u32).into(),
        keys,
        capacity,
        rows,
        status,
    );
    // SAFETY: columns have as many rows as their side's keys, from the same row on.
    unsafe { walk(stream, JOIN, sides, &args, output) }
}

/// Launches a merge kernel; the number of output rows, `None` if its status is not zero.
///
/// # Safety
/// `args` are those of these sides and of this output, with columns of these sides.
pub(crate) unsafe fn walk<A: Arguments>(
    stream: &Arc<Stream>,
    kernels: Kernels<A>,
    sides: &Sides<'_>,
    args: &A,
    output: &Output,
) -> Result<Option<usize>> {
    // SAFETY: keys are in whole vectors, which begin at multiples of 16 bytes; the written columns have room for
    // `output.capacity` rows; the words of the state that are written were zero. The caller promises the rest.
    unsafe { stream.launch(sides.kernel(kernels), sides.shape(), args)? };
    let mut state = [0; 12];
    stream.read_few(&mut state, &output.state, 0)?;
    let (rows, status) = state.split_at(8);
    let rows = u64::from_le_bytes(rows.try_into().unwrap_or_default());
    Ok((status == [0; 4]).then_some(rows as usize))
}
