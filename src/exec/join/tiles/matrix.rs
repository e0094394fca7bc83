//! [`Matrix`]: the join matrix, the gathered left chunks by the streamed right chunks. In: chunks. Out: joined or
//! counted tiles.
//!
//! ```text
//!               right chunk 1   right chunk 2   …          A tile is a rectangle of the matrix that fits the device:
//! left chunk 1  ┌─────────────┬─────────────┐              one left chunk by one right chunk. After a refused
//!               │    tile     │    tile     │              reservation its longer side is halved until it fits
//! left chunk 2  ├─────────────┼─────────────┤              ([T] 3.3.1), or its probe side is cut into several parts.
//!               │    tile     │    tile     │
//!               └─────────────┴─────────────┘
//! ```
//!
//! If both sides are hash-partitioned (`exec/join/grace_join.rs`), there are only tiles of the same partition.
//!
//! A right chunk is joined with every left chunk before the next one is read. So its unmatched rows are known when it
//! is done, and those of the left side at the end.

use std::ops::Range;
use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::fast_paths::single_pass::{PreparedBuild, SinglePassJoin};
use crate::exec::join::needed_columns::NeededColumns;
use crate::exec::join::tiles::passes::Passes;
use crate::exec::join::tiles::probed_tile::TileStep;
use crate::exec::join::tiles::tile::Tile;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::Step;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::ops::build_index::BuildIndex;
use crate::ops::probe::ProbeResult;
use crate::spec::join::{JoinSpec, MatchSpec};

/// Resident rows of one side, kept while the next tile needs them too.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) chunk: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) batch: DeviceBatch,
    /// The index of these rows, and what it covers.
    pub(crate) index: Option<(Indexed, Arc<BuildIndex>)>,
    /// The rows as the build side of a single-pass join.
    pub(crate) prepared: PreparedBuild,
}

/// What an index of a side's rows covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Indexed {
    /// The comparisons of a pass, or of the join's only one.
    Comparisons(Option<usize>),
    /// Equalities alone, for the whole filter.
    Equalities,
}

/// The chunks of both sides, and the rest of the walk over their tiles.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) spec: Arc<JoinSpec>,
    needed: NeededColumns,
    pub(crate) left: Vec<InputChunk>,
    /// The current right chunk.
    pub(crate) right: Option<InputChunk>,
    /// Right chunks so far, which is also the number of the current one.
    pub(crate) right_chunks: usize,
    /// Tiles of the current right chunk, the next one last.
    pub(crate) tiles: Vec<Tile>,
    pub(crate) resident_left: Option<Resident>,
    pub(crate) resident_right: Option<Resident>,
    pub(crate) passes: Passes,
    /// The left and the right chunk for which guards were last evaluated, and whether they hold.
    pub(crate) guarded: Option<((usize, usize), bool)>,
    pub(crate) spilling: Option<Spilling>,
    /// All chunks were spilled since the last success, so that spilling again does not help.
    pub(crate) left_pool: bool,
    /// Tiles are cut across their right side as long as they can be: what is made of a left chunk serves only whole ones.
    pub(crate) keeps_left_whole: bool,
    /// Device memory that is held until the end of the join, whatever the size of a tile.
    pub(crate) held_bytes: u64,
    pub(crate) metrics: DeviceMetrics,
}

impl Matrix {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        spec: Arc<JoinSpec>,
        needed: NeededColumns,
        left: Vec<InputChunk>,
        spilling: Option<Spilling>,
        metrics: DeviceMetrics,
    ) -> Self {
        Self {
            passes: Passes::of(&spec),
            device,
            spec,
            needed,
            left,
            right: None,
            right_chunks: 0,
            tiles: vec![],
            resident_left: None,
            resident_right: None,
            guarded: None,
            spilling,
            left_pool: false,
            keeps_left_whole: false,
            held_bytes: 0,
            metrics,
        }
    }

    /// Mean bytes of a row of the needed columns: of the widest left chunk, plus those of `right` if there is one.
    pub(crate) fn row_bytes(&self, right: Option<&InputChunk>) -> Result<usize> {
        let mut widest = 0;
        for chunk in &self.left {
            widest = widest.max(self.needed.row_bytes(Side::Left, chunk)?);
        }
        Ok(match right {
            Some(right) => widest + self.needed.row_bytes(Side::Right, right)?,
            None => widest,
        })
    }

    /// Mean bytes of a row of a left chunk's needed columns.
    pub(crate) fn left_row_bytes(&self, left_chunk: usize) -> Result<usize> {
        self.needed.row_bytes(Side::Left, &self.left[left_chunk])
    }

    /// All rows of a left chunk, resident.
    pub(crate) fn left_batch(&self, left_chunk: usize) -> Result<DeviceBatch> {
        let rows = 0..self.left[left_chunk].rows();
        match &self.resident_left {
            Some(resident) if resident.chunk == left_chunk && resident.rows == rows => {
                Ok(resident.batch.clone())
            }
            _ => self.upload(Side::Left, left_chunk, &rows),
        }
    }

    /// The condition by which the matches of a tile are found.
    pub(crate) fn matched_by(&self, tile: &Tile) -> &MatchSpec {
        match tile.pass {
            Some(pass) => self.passes.spec(pass),
            None => &self.spec.theta,
        }
    }

    pub(crate) fn left(&self) -> &[InputChunk] {
        &self.left
    }

    pub(crate) fn right(&self) -> Option<&InputChunk> {
        self.right.as_ref()
    }

    /// The columns of the right side that tiles need on the device.
    pub(crate) fn needed_right(&self) -> &[Need] {
        match self.left.is_empty() {
            // Without left chunks there is no tile.
            true => &[],
            false => &self.needed.right,
        }
    }

    /// Uploads the first left chunk while the first right chunk is read, if memory allows.
    pub(crate) fn preload(&mut self) -> Result<()> {
        let rows = match self.left.first() {
            Some(chunk) => 0..chunk.rows(),
            None => return Ok(()),
        };
        match self.upload(Side::Left, 0, &rows) {
            Ok(batch) => {
                self.resident_left = Some(Resident {
                    chunk: 0,
                    rows,
                    batch,
                    index: None,
                    prepared: PreparedBuild::NotYet,
                });
                Ok(())
            }
            // Its tile uploads it later.
            Err(error) if error.is_divisible() || error.is_out_of_host_memory() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Uploads `rows` of left chunk `left_chunk` or of the current right chunk.
    pub(crate) fn upload(
        &self,
        side: Side,
        left_chunk: usize,
        rows: &Range<usize>,
    ) -> Result<DeviceBatch> {
        let chunk = match side {
            Side::Left => &self.left[left_chunk],
            Side::Right => self
                .right
                .as_ref()
                .ok_or_else(|| BowtieError::Internal("a tile without a right chunk".into()))?,
        };
        let needed = self.needed.of_side(side);
        chunk.upload(self.device.as_ref(), rows, needed, &self.metrics)
    }

    /// Counts the bytes of columns that were uploaded lazily since the last call.
    pub(crate) fn count_lazy_uploads(&self) {
        let bytes = self.needed.take_lazy_bytes();
        self.metrics.uploaded_bytes.add(bytes as usize);
    }

    /// Begins the next right chunk: lists its tiles, and takes over its prefetched columns.
    pub(crate) fn push_right(&mut self, chunk: InputChunk) -> Result<()> {
        let tiles: Vec<Tile> = self
            .left
            .iter()
            .enumerate()
            .filter(|(_, left)| left.partition() == chunk.partition())
            .map(|(left_chunk, left)| Tile {
                pass: None,
                left_chunk,
                left: 0..left.rows(),
                right: 0..chunk.rows(),
            })
            .collect();
        let tiles_of = |tile: Tile| -> Vec<Tile> {
            let probe = self.spec.theta.build.other();
            let pairs = tile.left.len() as u64 * tile.right.len() as u64;
            let parts = match (self.tests_every_pair(), self.spec.theta.strategy()) {
                (true, _) => pairs.div_ceil(self.device.profile().tested_pairs),
                (false, Strategy::Set(_)) => {
                    (tile.rows(probe).len() as u64).div_ceil(self.device.profile().probed_sets)
                }
                (false, _) => 1,
            };
            tile.cut(probe, parts.max(1) as usize)
        };
        let mut tiles: Vec<Tile> = tiles.into_iter().flat_map(tiles_of).collect();
        // The first tile has the left chunk that is still resident: the walk goes down one column of the matrix and up
        // the next.
        if self.right_chunks.is_multiple_of(2) {
            tiles.reverse();
        }
        self.tiles = tiles;
        self.right_chunks += 1;
        let prefetched = chunk.take_prefetched(self.device.as_ref())?;
        self.resident_right = prefetched.map(|batch| Resident {
            chunk: self.right_chunks,
            rows: 0..chunk.rows(),
            batch,
            index: None,
            prepared: PreparedBuild::NotYet,
        });
        self.right = Some(chunk);
        Ok(())
    }

    /// Ends the current right chunk, whether or not all of its tiles were joined.
    pub(crate) fn end_right(&mut self) {
        self.tiles.clear();
        self.resident_right = None;
        self.right = None;
    }

    /// The next tile of the current right chunk, joined in a single pass if `single_pass` allows it; `None` when the chunk
    /// is done.
    pub(crate) fn next_step(
        &mut self,
        step: &Step<'_>,
        wanted: ProbeResult,
        single_pass: Option<&SinglePassJoin>,
    ) -> Result<Option<TileStep>> {
        self.next_by(step, |matrix, tile| {
            matrix.step(step, tile, wanted, single_pass)
        })
    }

    /// What `join` makes of the next tile of the current right chunk; `None` when the chunk is done. A tile that does not fit is cut, and
    /// a part of it is joined.
    pub(crate) fn next_by<T>(
        &mut self,
        step: &Step<'_>,
        mut join: impl FnMut(&mut Self, &Tile) -> Result<T>,
    ) -> Result<Option<T>> {
        while let Some(tile) = self.tiles.pop() {
            self.relieve_pool(tile.left_chunk)?;
            match join(self, &tile) {
                Ok(done) => {
                    self.left_pool = false;
                    self.metrics.chunks.add(1);
                    return Ok(Some(done));
                }
                Err(error) if error.is_out_of_host_memory() => {
                    // Half of a tile needs only half of its spilled rows in memory.
                    match self.leave_pool_once()? {
                        true => self.tiles.push(tile),
                        false if self.halve(&tile) => {}
                        false => return Err(error),
                    }
                }
                Err(error) => self.put_back(step, &tile, error)?,
            }
        }
        Ok(None)
    }
}
