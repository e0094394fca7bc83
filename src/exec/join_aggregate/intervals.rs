//! [`IntervalCounts`]: aggregates over overlapping intervals by two searches for each right row, in place of ranges and
//! tests. In: tiles with all rows of a left chunk. Out: the counts of each right chunk's rows, and once all right chunks
//! were seen those of each left chunk's rows.
//!
//! It serves aggregates whose arguments are weighted by match counts, and counts of the other side's values. A tile that
//! it cannot serve is probed as any other: one in which an interval ends before it begins, or one without all rows of a
//! left chunk, or for whose index there is no room.

use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::budget::Lease;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::intervals::{IntervalCover, IntervalPlaces};
use crate::device::primitives::device::Device;
use crate::error::{IfItFits, Result};
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::join::tiles::tile::Tile;
use crate::ir::side::Side;
use crate::ops::intervals::IntervalBuild;
use crate::spec::aggregate::AggregateFunction;
use crate::spec::interval::IntervalOverlap;
use crate::spec::join::JoinSpec;
use crate::spec::join_aggregate::{AggregateSpec, GroupSide, JoinAggregateSpec};

/// The part of the budget that counts of left rows may take, as a divisor: they stay until the end of the join.
const SHARE_OF_COUNTS: u64 = 4;

/// Bytes of a left row in both orders of an index, with their directories.
const INDEX_ROW_BYTES: usize = 40;

/// Bytes of a row's states, of all aggregates, roughly.
const STATES_ROW_BYTES: usize = 64;

/// What is counted, and the counts so far.
pub(crate) struct IntervalCounts {
    overlap: IntervalOverlap,
    counts_left: bool,
    counts_right: bool,
    /// Columns whose values, leaving out NULLs, are counted by the rows of the other side, which is the grouped one.
    value_columns: Vec<usize>,
    chunks: Vec<LeftChunk>,
}

/// The counts of a left chunk's rows.
#[derive(Default)]
struct LeftChunk {
    cover: Cover,
    /// Whether other tiles of the chunk were probed, which set the flags of its rows and made groups of them.
    is_probed: bool,
}

#[derive(Default)]
enum Cover {
    #[default]
    NotYet,
    /// There is no room for it, or an interval ends before it begins.
    Declined,
    Counting(Box<LeftCover>),
    Counted(LeftCounts),
    Merged,
}

struct LeftCover {
    build: IntervalBuild,
    /// The intervals of rows with a value in each of the left value columns; `None` where all rows have one.
    builds_of_values: Vec<Option<IntervalBuild>>,
    /// Of the left rows, if they are counted.
    all: Option<IntervalCover>,
    /// One for each of the right value columns.
    of_values: Vec<IntervalCover>,
    /// Rows of the right side so far.
    right_rows: u64,
    /// Held until the counts are made, for these and what is made of them.
    lease: Lease,
}

/// A tile whose right rows have their places.
pub(crate) struct PlacedTile {
    pub(crate) tile: Tile,
    pub(crate) right: DeviceBatch,
    /// Of the right rows, if they are counted.
    pub(crate) counts: Option<RowCounts>,
    places: IntervalPlaces,
    /// Which right rows have a value in each of the right value columns; `None` where all have one.
    values: Vec<Option<Bits>>,
}

/// The counts of a side's rows.
#[derive(Debug)]
pub(crate) struct RowCounts {
    /// Overlaps of each row; at least 1 where the row is kept without any.
    pub(crate) weights: Buffer<u32>,
    /// A value column of the other side, and how many of a row's overlaps have a value in it.
    of_values: Vec<(usize, Buffer<u32>)>,
}

type LeftCounts = Arc<RowCounts>;

impl RowCounts {
    /// How many of each row's overlaps have a value in a column of the other side, if that was counted.
    pub(crate) fn of_column(&self, column: usize) -> Option<&Buffer<u32>> {
        let mut of_values = self.of_values.iter();
        of_values
            .find(|(of, _)| *of == column)
            .map(|(_, counts)| counts)
    }
}

/// The side whose rows' counts an aggregate weighs; `None` if it needs the matches.
pub(crate) fn counted_side(spec: &JoinAggregateSpec, aggregate: &AggregateSpec) -> Option<Side> {
    match (spec.group_side, aggregate.argument) {
        // The side whose rows are kept without a match.
        (GroupSide::Nothing, None) if spec.join.flags_side(Side::Left) => Some(Side::Left),
        (GroupSide::Nothing, None) => Some(Side::Right),
        (GroupSide::Nothing, Some((side, _))) => Some(side),
        (GroupSide::Side(grouped), None) => Some(grouped),
        (GroupSide::Side(grouped), Some((side, _))) => {
            let is_count = aggregate.function == AggregateFunction::Count;
            (side == grouped || is_count).then_some(grouped)
        }
    }
}

impl IntervalCounts {
    /// For an aggregation over `left_chunks` chunks; `None` if counts do not suffice for it.
    pub(crate) fn of(spec: &JoinAggregateSpec, left_chunks: usize) -> Option<Self> {
        let overlap = IntervalOverlap::of(&spec.join)?;
        let sides = spec.aggregates.iter();
        let sides: Vec<Side> = sides
            .map(|aggregate| counted_side(spec, aggregate))
            .collect::<Option<_>>()?;
        let counts = |side: Side| {
            sides.contains(&side)
                || spec.group_side == GroupSide::Side(side)
                || spec.join.flags_side(side)
        };
        let mut value_columns: Vec<usize> = vec![];
        for aggregate in &spec.aggregates {
            if let (GroupSide::Side(grouped), Some((side, column))) =
                (spec.group_side, aggregate.argument)
                && side != grouped
                && !value_columns.contains(&column)
            {
                value_columns.push(column);
            }
        }
        Some(Self {
            overlap,
            counts_left: counts(Side::Left),
            counts_right: counts(Side::Right),
            value_columns,
            chunks: (0..left_chunks).map(|_| LeftChunk::default()).collect(),
        })
    }

    /// Places the right rows of the tile that comes next. `None` if it has to be probed.
    pub(crate) fn place(&mut self, matrix: &mut Matrix, tile: &Tile) -> Result<Option<PlacedTile>> {
        let placed = self.place_if_possible(matrix, tile)?;
        self.chunks[tile.left_chunk].is_probed |= placed.is_none();
        Ok(placed)
    }

    fn place_if_possible(
        &mut self,
        matrix: &mut Matrix,
        tile: &Tile,
    ) -> Result<Option<PlacedTile>> {
        let left_rows = matrix.left()[tile.left_chunk].rows();
        let is_declined = matches!(self.chunks[tile.left_chunk].cover, Cover::Declined);
        // The matches of another pass are merged already.
        let is_partly_merged = tile.pass.is_some();
        if is_partly_merged || tile.left != (0..left_rows) || is_declined || matrix.bring(tile)? {
            return Ok(None);
        }
        let (left, right) = matrix.resident_sides()?;
        let (left, right) = (left.clone(), right.clone());
        let device = Arc::clone(&matrix.device);
        let device = device.as_ref();
        device.check_cancelled()?;
        let timer = matrix.metrics.prepare_time.clone();
        let _timer = timer.timer();
        if matches!(self.chunks[tile.left_chunk].cover, Cover::NotYet) {
            let before = device.budget().in_use();
            let cover = match self.cover_of(device, matrix, tile.left_chunk, &left) {
                // A later tile may find the room that others have now.
                Err(error) if error.is_transient() => return Ok(None),
                cover => cover.if_it_fits()?.flatten(),
            };
            let bytes = device.budget().in_use().saturating_sub(before);
            self.chunks[tile.left_chunk].cover = match cover {
                Some(cover) if bytes <= self.most_bytes(device) => {
                    matrix.metrics.indexed_by("intervals");
                    matrix.keeps_left_whole = true;
                    matrix.held_bytes += bytes;
                    Cover::Counting(Box::new(cover))
                }
                _ => Cover::Declined,
            };
        }
        let Cover::Counting(cover) = &self.chunks[tile.left_chunk].cover else {
            return Ok(None);
        };
        // Counts have 32 bits.
        if cover.right_rows + right.rows() as u64 > u64::from(u32::MAX) {
            return Ok(None);
        }
        let theta = &matrix.spec.theta;
        let places = |build: &IntervalBuild| build.places(device, theta, &self.overlap, &right);
        let Some(all) = places(&cover.build)? else {
            return Ok(None);
        };
        let counts = match self.counts_right {
            false => None,
            true => {
                let least = u32::from(keeps_right(matrix));
                let mut of_values = vec![];
                for (column, build) in self.value_columns.iter().zip(&cover.builds_of_values) {
                    let counts = match build {
                        None => device.interval_counts(&all, 0)?,
                        Some(build) => match places(build)? {
                            Some(places) => device.interval_counts(&places, 0)?,
                            None => return Ok(None),
                        },
                    };
                    of_values.push((*column, counts));
                }
                Some(RowCounts {
                    weights: device.interval_counts(&all, least)?,
                    of_values,
                })
            }
        };
        let values = match self.counts_left {
            false => vec![],
            true => {
                let columns = self.value_columns.iter();
                let values = columns.map(|column| device.validity(right.column(*column)?));
                values.collect::<Result<_>>()?
            }
        };
        Ok(Some(PlacedTile {
            tile: tile.clone(),
            right,
            counts,
            places: all,
            values,
        }))
    }

    /// The cover of a left chunk by nothing. `None` if it takes too much of the budget, or if an interval ends before it
    /// begins.
    fn cover_of(
        &self,
        device: &dyn Device,
        matrix: &Matrix,
        left_chunk: usize,
        left: &DeviceBatch,
    ) -> Result<Option<LeftCover>> {
        let (rows, columns) = (left.rows() as u64, self.value_columns.len());
        let of_index = INDEX_ROW_BYTES * (1 + columns) + 8 * (1 + columns);
        let at_end = matrix.left_row_bytes(left_chunk)? + 4 * (1 + columns) + STATES_ROW_BYTES;
        let at_end = if self.counts_left { at_end } else { 0 };
        let bytes = (of_index + at_end) as u64 * rows;
        if bytes > self.most_bytes(device) {
            return Ok(None);
        }
        let lease = device
            .budget()
            .lease(at_end as u64 * rows, "counts of intervals")?;
        let (theta, overlap) = (&matrix.spec.theta, &self.overlap);
        let Some(build) = IntervalBuild::new(device, theta, overlap, left, None)? else {
            return Ok(None);
        };
        let mut cover = LeftCover {
            builds_of_values: vec![],
            all: None,
            of_values: vec![],
            right_rows: 0,
            lease,
            build,
        };
        if self.counts_left {
            cover.all = Some(device.interval_cover(&cover.build.index)?);
            for _ in &self.value_columns {
                let of_values = device.interval_cover(&cover.build.index)?;
                cover.of_values.push(of_values);
            }
        } else {
            for column in &self.value_columns {
                let build = match device.validity(left.column(*column)?)? {
                    None => None,
                    Some(valid) => {
                        let build = IntervalBuild::new(device, theta, overlap, left, Some(&valid))?;
                        let Some(build) = build else {
                            return Ok(None);
                        };
                        Some(build)
                    }
                };
                cover.builds_of_values.push(build);
            }
        }
        Ok(Some(cover))
    }

    /// The most bytes of a left chunk's counts.
    fn most_bytes(&self, device: &dyn Device) -> u64 {
        device.budget().limit() / SHARE_OF_COUNTS / self.chunks.len().max(1) as u64
    }

    /// Adds the right rows of a tile to the counts of the left rows. After a failure these are of no use.
    pub(crate) fn add(&mut self, device: &dyn Device, placed: &PlacedTile) -> Result<()> {
        let chunk = &mut self.chunks[placed.tile.left_chunk];
        let Cover::Counting(cover) = &mut chunk.cover else {
            return Ok(());
        };
        if let Some(all) = &cover.all {
            device.add_to_cover(all, &placed.places, None)?;
        }
        for (of_values, values) in cover.of_values.iter().zip(&placed.values) {
            device.add_to_cover(of_values, &placed.places, values.as_ref())?;
        }
        cover.right_rows += placed.right.rows() as u64;
        Ok(())
    }

    /// Whether a left chunk's rows were counted, and not merged yet.
    pub(crate) fn has_counts(&self, left_chunk: usize) -> bool {
        let cover = self.chunks.get(left_chunk).map(|chunk| &chunk.cover);
        let is_counted = matches!(cover, Some(Cover::Counting(_) | Cover::Counted(_)));
        self.counts_left && is_counted
    }

    /// Whether the counts of this only chunk are all that is known of matches.
    pub(crate) fn are_complete(&self) -> bool {
        matches!(&self.chunks[..], [only] if !only.is_probed)
    }

    /// The counts of a left chunk's rows, whose index is then dropped; `None` if they were not counted.
    pub(crate) fn left_counts(
        &mut self,
        device: &dyn Device,
        spec: &JoinSpec,
        left_chunk: usize,
    ) -> Result<Option<LeftCounts>> {
        if !self.has_counts(left_chunk) {
            return Ok(None);
        }
        let chunk = &mut self.chunks[left_chunk];
        if let Cover::Counting(cover) = &mut chunk.cover
            && let Some(all) = &cover.all
        {
            let index = &cover.build.index;
            cover
                .lease
                .shrink_to((STATES_ROW_BYTES * index.rows) as u64);
            // A match of a tile that was probed is known by a flag alone.
            let least = u32::from(spec.flags_side(Side::Left) && !chunk.is_probed);
            let of_values = self.value_columns.iter().zip(&cover.of_values);
            let counts = RowCounts {
                weights: device.covered(index, all, least)?,
                of_values: of_values
                    .map(|(column, cover)| Ok((*column, device.covered(index, cover, 0)?)))
                    .collect::<Result<_>>()?,
            };
            chunk.cover = Cover::Counted(Arc::new(counts));
        }
        Ok(match &chunk.cover {
            Cover::Counted(counts) => Some(Arc::clone(counts)),
            _ => None,
        })
    }

    /// Forgets the counts of a left chunk's rows.
    pub(crate) fn merged(&mut self, left_chunk: usize) {
        self.chunks[left_chunk].cover = Cover::Merged;
    }
}

/// Whether the right rows are kept without a match, and no other left chunk can have one of theirs.
fn keeps_right(matrix: &Matrix) -> bool {
    let partition = matrix.right().map(|right| right.partition());
    let of_partition = matrix.left().iter();
    let of_partition = of_partition.filter(|left| Some(left.partition()) == partition);
    matrix.spec.flags_side(Side::Right) && of_partition.count() == 1
}
