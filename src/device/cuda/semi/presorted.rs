//! Joins of two sides whose keys ascend (`kernels/semi/merge.cuh`): no side is sorted, hashed or partitioned, each is read once.
//!
//! ```text
//! build rows that may match ─► a look at a few keys: do they ascend? ─► cuts ─► a tile of both a block ─► pairs, or rows that are kept
//! ```
//!
//! Tables are often in the order of a key: of a time, or of what they are clustered by; and \[D\]'s operators read sorted relations alone.
//! A kernel looks at a few hundred keys first, and what it saw is read while cuts are found. The one that joins finds out on the way whether all keys ascend, and
//! whether build keys are unique; where they are not, what it wrote is dropped, and a strategy for keys in no order goes on.

use std::sync::Arc;

use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::materialize::{Output, Sources, Ways, descriptors, sources};
use crate::device::cuda::equi::partition::Partitioned;
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::launch::{Arg, Shape};
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::staging::pinned_word::PinnedWord;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::data::results::{Joined, Kept};
use crate::device::presorted::Ascending;
use crate::error::Result;
use crate::ir::strategies::Materialization;

/// Units of 16 bytes that the rows of a tile fill, and the tile's shared memory without its list (`kernels/semi/merge_tile.cuh`).
const TILE_UNITS: usize = 4 * 256 - 36;
const TILE_SHARED: usize = TILE_UNITS * 16 + 128;
/// Entries of a tile's list, 4 bytes for each key in all of a block's units.
const LISTED_UNITS: usize = 4 * 256;
/// Tiles whose cuts a block finds.
const CUTS: usize = 64;

/// Two sides that seem to ascend, as kernels take them.
pub(crate) struct Sides<'a> {
    /// The build rows from `offset` on that may match.
    build: Part<'a>,
    offset: usize,
    build_rows: usize,
    probe: Part<'a>,
    probe_rows: usize,
    width: Width,
    is_signed: bool,
}

/// Kernels for keys of 4 bytes with and without a sign, and of 8 bytes.
type Kernels = [&'static str; 4];

const RANGE: Kernels = [
    "merge32_range_i32",
    "merge32_range_u32",
    "merge64_range_i64",
    "merge64_range_u64",
];
const LOOK: Kernels = [
    "merge32_look_i32",
    "merge32_look_u32",
    "merge64_look_i64",
    "merge64_look_u64",
];
const CUT: Kernels = [
    "merge32_cuts_i32",
    "merge32_cuts_u32",
    "merge64_cuts_i64",
    "merge64_cuts_u64",
];
const JOIN: Kernels = [
    "merge32_join_i32",
    "merge32_join_u32",
    "merge64_join_i64",
    "merge64_join_u64",
];
const KEEP: Kernels = [
    "merge32_keep_i32",
    "merge32_keep_u32",
    "merge64_keep_i64",
    "merge64_keep_u64",
];

impl<'a> Sides<'a> {
    /// Of mixed keys that were sorted.
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

    fn kernel(&self, of: Kernels) -> &'static str {
        match (self.width, self.is_signed) {
            (Width::Four, true) => of[0],
            (Width::Four, false) => of[1],
            (Width::Eight, true) => of[2],
            (Width::Eight, false) => of[3],
        }
    }

    /// What all kernels begin with.
    fn args(&self) -> Vec<Arg> {
        vec![
            self.build.into(),
            (self.build_rows as u32).into(),
            self.probe.into(),
            (self.probe_rows as u32).into(),
        ]
    }

    /// Rows of both sides in a tile.
    fn tile(&self) -> usize {
        TILE_UNITS * 16 / self.width.bytes()
    }

    /// Steps over both sides, up to a tile's end, are numbers of 32 bits.
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

/// The columns that went with keys.
fn carried(side: &Partitioned) -> Sources<'_> {
    let columns = side.columns.iter();
    columns
        .map(|column| (Some(column.into()), column.bytes() / side.rows))
        .collect()
}

/// What a look saw, read as soon as it is over: while cuts are found the host makes ready for the rest.
fn seem_to_ascend(look: Option<PinnedWord>) -> Result<bool> {
    look.map_or(Ok(true), |look| Ok(look.read()? == 0))
}

impl CudaDevice {
    /// All pairs of two sides whose keys ascend, those of the build side without repeats; `None` where they do not.
    pub(crate) fn merged_pairs(
        &self,
        keys: Ascending<'_>,
        materialization: Option<Materialization>,
        build_payload: &[&Column],
        payload: &[&Column],
    ) -> Result<Option<Joined>> {
        let queue = &self.queue;
        let Some(sides) = self.merged_sides(keys)? else {
            return Ok(None);
        };
        let look = queue.look(&sides, keys.known)?;
        let cuts = queue.cuts(&sides)?;
        if !seem_to_ascend(look)? {
            return Ok(None);
        }
        let how = materialization.unwrap_or(Materialization::Gftr);
        let build_ways = Ways::of(build_payload, None, how);
        let ways = Ways::of(payload, Some(keys.probe), how);
        let room = (sides.probe_rows, sides.width);
        let output = queue.room_for_pairs(&build_ways, build_payload, &ways, payload, room)?;
        let of_build = sources(&build_ways, build_payload);
        let of_build = of_build.into_iter().map(|(values, bytes)| {
            // Row numbers are counted from the offset by the kernel.
            let from = values.map(|values| values.after(sides.offset * bytes));
            (from, bytes)
        });
        let of_build: Sources<'_> = of_build.collect();
        let of_probe = sources(&ways, payload);
        let pairs = queue.walk_to_join(&sides, &cuts, (&of_build, &of_probe), &output)?;
        let Some(pairs) = pairs else {
            return Ok(None);
        };
        let (build, probe) = ((&build_ways, build_payload), (&ways, payload));
        self.put_together(build, probe, Some(output), pairs)
            .map(Some)
    }

    /// The probe rows that have a build row, or those that have none, of sides whose keys ascend: how many, and the columns `kept`, `None`
    /// if all are; without an answer where keys do not ascend.
    pub(crate) fn merged_rows(
        &self,
        keys: Ascending<'_>,
        matched: bool,
        kept: &[&Column],
    ) -> Result<Option<Kept>> {
        let queue = &self.queue;
        let Some(sides) = self.merged_sides(keys)? else {
            return Ok(None);
        };
        let look = queue.look(&sides, keys.known)?;
        let cuts = queue.cuts(&sides)?;
        if !seem_to_ascend(look)? {
            return Ok(None);
        }
        let ways = Ways::of(kept, Some(keys.probe), Materialization::Gftr);
        let none = Ways::of(&[], None, Materialization::Gftr);
        let room = (sides.probe_rows, sides.width);
        let output = queue.room_for_pairs(&none, &[], &ways, kept, room)?;
        let rows = queue.walk_to_keep(&sides, &cuts, matched, &sources(&ways, kept), &output)?;
        let Some(rows) = rows else {
            return Ok(None);
        };
        if rows == sides.probe_rows {
            return Ok(Some(None));
        }
        let made = self.put_together((&none, &[]), (&ways, kept), Some(output), rows)?;
        Ok(Some(Some((rows, made.probe))))
    }

    /// `None` for keys that kernels do not merge, or that are few.
    fn merged_sides<'a>(&self, keys: Ascending<'a>) -> Result<Option<Sides<'a>>> {
        let (build_rows, probe_rows) = (keys.build.rows(), keys.probe.rows());
        let rows = build_rows + probe_rows;
        if build_rows.min(probe_rows) == 0 || (rows < self.least_merged_rows && !keys.known) {
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
            let (first, end) = self.queue.matching(&sides)?;
            // From the unit on that the first of them is in.
            sides.offset = first * width.bytes() / 16 * 16 / width.bytes();
            sides.build_rows = end.max(sides.offset) - sides.offset;
            sides.build = sides.build.after(sides.offset * width.bytes());
        }
        Ok(Some(sides))
    }
}

impl Stream {
    /// Where the build rows lie that may match, if both sides ascend.
    fn matching(self: &Arc<Self>, sides: &Sides<'_>) -> Result<(usize, usize)> {
        let found = self.alloc(8, "a range of keys")?;
        let mut args = sides.args();
        args.push((&found).into());
        let shape = Shape::blocks_of(1, 1, CUTS as u32);
        // SAFETY: both sides have as many keys of the kernel's width as rows, at least one; two words are written.
        unsafe { self.launch(sides.kernel(RANGE), shape, &args)? };
        let mut words = [0; 8];
        self.read_few(&mut words, &found, 0)?;
        let word = |at: usize| {
            let bytes = words[at * 4..][..4].try_into();
            u32::from_le_bytes(bytes.unwrap_or_default()) as usize
        };
        Ok((word(0), word(1)))
    }

    /// Looks whether a few hundred keys ascend, unless that is known: sides in no order then cost little more than this look.
    fn look(&self, sides: &Sides<'_>, known: bool) -> Result<Option<PinnedWord>> {
        if known {
            return Ok(None);
        }
        let shape = Shape::blocks_of(1, 1, CUTS as u32);
        let look = self.note(|seen| {
            let mut args = sides.args();
            args.push(seen);
            // SAFETY: both sides have as many keys of the kernel's width as rows; a word is written, or none.
            unsafe { self.launch(sides.kernel(LOOK), shape, &args) }
        });
        look.map(Some)
    }

    /// How many build rows come before each tile, and before the end of all.
    fn cuts(self: &Arc<Self>, sides: &Sides<'_>) -> Result<Memory> {
        let tiles = sides.tiles();
        let cuts = self.alloc((tiles + 1) * 4, "cuts of tiles")?;
        let mut args = sides.args();
        args.extend([Arg::from(tiles as u32), (&cuts).into()]);
        let shape = Shape::blocks_of((tiles + 1).div_ceil(CUTS), 1, CUTS as u32);
        // SAFETY: both sides have as many keys of the kernel's width as rows, and there is a word for each cut.
        unsafe { self.launch(sides.kernel(CUT), shape, &args)? };
        Ok(cuts)
    }

    /// The pairs of two sides that were sorted, where build keys are unique, and there is room for one a probe row.
    pub(crate) fn unique_pairs(
        self: &Arc<Self>,
        (build, probe): (&Partitioned, &Partitioned),
        (build_ways, build_payload): (&Ways, &[&Column]),
        (ways, payload): (&Ways, &[&Column]),
    ) -> Result<Option<(Output, usize)>> {
        let sides = Sides::sorted(build, probe);
        if sides.are_long() {
            return Ok(None);
        }
        let room = (probe.rows, probe.width);
        let output = self.room_for_pairs(build_ways, build_payload, ways, payload, room)?;
        let cuts = self.cuts(&sides)?;
        let columns = (&carried(build), &carried(probe));
        let rows = self.walk_to_join(&sides, &cuts, columns, &output)?;
        Ok(rows.map(|rows| (output, rows)))
    }

    /// The number of pairs; `None` where keys do not ascend.
    fn walk_to_join(
        self: &Arc<Self>,
        sides: &Sides<'_>,
        cuts: &Memory,
        (build, probe): (&Sources<'_>, &Sources<'_>),
        output: &Output,
    ) -> Result<Option<usize>> {
        let build_columns = self.descriptors(&descriptors(build, &output.build))?;
        let probe_columns = self.descriptors(&descriptors(probe, &output.probe))?;
        let given = [
            (&build_columns).into(),
            (build.len() as u32).into(),
            (&probe_columns).into(),
            (probe.len() as u32).into(),
            (sides.offset as u32).into(),
        ];
        // SAFETY: columns have as many rows as their side's keys, from the same row on.
        unsafe { self.walk(JOIN, sides, cuts, &given, output) }
    }

    /// The same for probe rows by themselves.
    fn walk_to_keep(
        self: &Arc<Self>,
        sides: &Sides<'_>,
        cuts: &Memory,
        matched: bool,
        probe: &Sources<'_>,
        output: &Output,
    ) -> Result<Option<usize>> {
        let columns = match probe.is_empty() {
            true => None,
            false => Some(self.descriptors(&descriptors(probe, &output.probe))?),
        };
        let given = [
            u32::from(!matched).into(),
            columns.as_ref().into(),
            (probe.len() as u32).into(),
        ];
        // SAFETY: columns have as many rows as the probe side's keys.
        unsafe { self.walk(KEEP, sides, cuts, &given, output) }
    }

    /// # Safety
    /// What is `given` between the cuts and the results are the kernel's arguments, for columns of these sides.
    unsafe fn walk(
        self: &Arc<Self>,
        kernels: Kernels,
        sides: &Sides<'_>,
        cuts: &Memory,
        given: &[Arg],
        output: &Output,
    ) -> Result<Option<usize>> {
        let mut args = sides.args();
        args.push(cuts.into());
        args.extend(given);
        args.extend([
            output.keys.as_ref().into(),
            (output.room as u64).into(),
            (&output.state).into(),
            output.state.word(2),
        ]);
        // SAFETY: keys are in whole vectors, which begin at multiples of 16 bytes; the columns written have room for so many results; what
        // is written to the state was zero. The caller promises the rest.
        unsafe { self.launch(sides.kernel(kernels), sides.shape(), &args)? };
        let mut state = [0; 12];
        self.read_few(&mut state, &output.state, 0)?;
        let (rows, status) = state.split_at(8);
        let rows = u64::from_le_bytes(rows.try_into().unwrap_or_default());
        Ok((status == [0; 4]).then_some(rows as usize))
    }
}
