//! The join matrix: the left side's chunks, gathered, by the right side's chunks, streamed.
//!
//! ```text
//!               right chunk 1   right chunk 2   …          a tile is a rectangle of the matrix that fits the device:
//! left chunk 1  ┌─────────────┬─────────────┐              one left chunk by one right chunk, unless a lease is
//!               │    tile     │    tile     │              refused: then the longer side is halved, and again, until
//! left chunk 2  ├─────────────┼─────────────┤              it fits ([T] 3.3.1); or its searching side is cut at once
//!               │    tile     │    tile     │
//!               └─────────────┴─────────────┘
//! ```
//!
//! Where both sides are in parts by their keys (`partition/grace_join.rs`), there are tiles of the same part alone.
//!
//! The right chunk at hand meets every left chunk before the next right chunk is asked for, so its unmatched rows are
//! known when it is done; the left side's are known at the end.

use std::ops::Range;
use std::sync::Arc;

use crate::device::data::batch::DeviceBatch;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::input::chunk::InputChunk;
use crate::exec::input::prefetch::Prefetched;
use crate::exec::join::needed_columns::NeededColumns;
use crate::exec::join::single_pass::{PreparedBuild, SinglePassJoin};
use crate::exec::join::tiles::probed_tile::{ProbedTile, TileStep};
use crate::exec::join::tiles::tile::Tile;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::Step;
use crate::exec::metrics::DeviceMetrics;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;
use crate::ops::build_index::BuildIndex;
use crate::ops::probe::ProbeResult;
use crate::spec::join::JoinSpec;

/// Rows of one side on the device, kept while the next tile needs them too.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) chunk: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) batch: DeviceBatch,
    /// With and without comparisons indexed.
    pub(crate) index: Option<(bool, Arc<BuildIndex>)>,
    pub(crate) prepared: PreparedBuild,
}

#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) spec: Arc<JoinSpec>,
    needed: NeededColumns,
    pub(crate) left: Vec<InputChunk>,
    pub(crate) right: Option<InputChunk>,
    pub(crate) right_chunks: usize,
    /// Tiles of the right chunk at hand, the next one last.
    pub(crate) tiles: Vec<Tile>,
    pub(crate) resident_left: Option<Resident>,
    pub(crate) resident_right: Option<Resident>,
    /// Whether the guards hold of a left and a right chunk; tiles of the same chunks do not ask again.
    pub(crate) guarded: Option<((usize, usize), bool)>,
    pub(crate) spilling: Option<Spilling>,
    /// Since the last success, all that could left the memory pool.
    pub(crate) left_pool: bool,
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
            metrics,
        }
    }

    /// Mean bytes of a row of the needed columns of both sides: of the widest left chunk, and of `right` if there is one.
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

    pub(crate) fn left(&self) -> &[InputChunk] {
        &self.left
    }

    pub(crate) fn right(&self) -> Option<&InputChunk> {
        self.right.as_ref()
    }

    /// Columns of the right side that tiles need on the device.
    pub(crate) fn needed_right(&self) -> &[Need] {
        match self.left.is_empty() {
            // There is no tile.
            true => &[],
            false => &self.needed.right,
        }
    }

    /// Uploads the first left chunk, if there is room, before a right chunk is there.
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
            // Its turn comes with that of its tile.
            Err(error) if error.is_divisible() || error.is_out_of_host_memory() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Rows of left chunk `left_chunk`, or of the right chunk at hand, on the device.
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

    /// Counts the columns that were uploaded since, as enough of their rows came out.
    pub(crate) fn count_lazy_uploads(&self) {
        let bytes = self.needed.take_lazy_bytes();
        self.metrics.uploaded_bytes.add(bytes as usize);
    }

    /// Begins the next right chunk.
    pub(crate) fn push_right(&mut self, arriving: Prefetched) -> Result<()> {
        let Prefetched { chunk, uploaded } = arriving;
        let tiles: Vec<Tile> = self
            .left
            .iter()
            .enumerate()
            .filter(|(_, left)| left.part() == chunk.part())
            .map(|(left_chunk, left)| Tile {
                left_chunk,
                left: 0..left.rows(),
                right: 0..chunk.rows(),
            })
            .collect();
        let tiles_of = |tile: Tile| -> Vec<Tile> {
            let probe = self.spec.theta.build.other();
            let pairs = tile.left.len() as u64 * tile.right.len() as u64;
            let parts = match (self.tests_every_pair(), self.spec.theta.strategy) {
                (true, _) => pairs.div_ceil(self.device.profile().tested_pairs),
                (false, Strategy::Set(_)) => {
                    (tile.rows(probe).len() as u64).div_ceil(self.device.profile().probed_sets)
                }
                (false, _) => 1,
            };
            tile.cut(probe, parts.max(1) as usize)
        };
        let mut tiles: Vec<Tile> = tiles.into_iter().flat_map(tiles_of).collect();
        // Go on with the left chunk that is still resident: down one column of the matrix, up the next.
        if self.right_chunks.is_multiple_of(2) {
            tiles.reverse();
        }
        self.tiles = tiles;
        self.right_chunks += 1;
        self.resident_right = match uploaded {
            Some(batch) => Some(Resident {
                chunk: self.right_chunks,
                rows: 0..chunk.rows(),
                batch: batch.receive(self.device.as_ref())?,
                index: None,
                prepared: PreparedBuild::NotYet,
            }),
            None => None,
        };
        self.right = Some(chunk);
        Ok(())
    }

    /// Ends the right chunk at hand, whether or not all of its tiles were joined.
    pub(crate) fn take_right(&mut self) -> Option<InputChunk> {
        self.tiles.clear();
        self.resident_right = None;
        self.right.take()
    }

    /// The next tile of the right chunk at hand, searched; `None` when it is done.
    pub(crate) fn next(
        &mut self,
        step: &Step<'_>,
        wanted: ProbeResult,
    ) -> Result<Option<ProbedTile>> {
        match self.next_step(step, wanted, None)? {
            Some(TileStep::Searched(tile)) => Ok(Some(*tile)),
            Some(TileStep::Joined(_)) => {
                Err(BowtieError::Internal("a tile without a request".into()))
            }
            None => Ok(None),
        }
    }

    /// The next tile of the right chunk at hand, joined at once where it can be; `None` when the chunk is done.
    pub(crate) fn next_step(
        &mut self,
        step: &Step<'_>,
        wanted: ProbeResult,
        at_once: Option<&SinglePassJoin>,
    ) -> Result<Option<TileStep>> {
        while let Some(tile) = self.tiles.pop() {
            self.relieve_pool(tile.left_chunk)?;
            match self.step(step, &tile, wanted, at_once) {
                Ok(done) => {
                    self.left_pool = false;
                    self.metrics.chunks.add(1);
                    return Ok(Some(done));
                }
                Err(error) if error.is_out_of_host_memory() => {
                    // Half of a tile is read from files by half of their rows.
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
