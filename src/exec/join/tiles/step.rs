//! Joins one tile: uploads its sides, then joins them in a single pass or indexes one and probes with the other.

use std::ops::Range;
use std::sync::Arc;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::results::Counter;
use crate::error::{BowtieError, Result};
use crate::exec::chunk::staged_chunk::Parts;
use crate::exec::input::chunk::InputChunk;
use crate::exec::join::fast_paths::single_pass::{JoinedSides, PreparedBuild, SinglePassJoin};
use crate::exec::join::tiles::matrix::{Indexed, Matrix, Resident};
use crate::exec::join::tiles::probed_tile::{JoinedTile, ProbedTile, TileStep};
use crate::exec::join::tiles::tile::Tile;
use crate::exec::memory::step::Step;
use crate::ir::side::Side;
use crate::ops::build_index::BuildIndex;
use crate::ops::probe::{Probe, ProbeResult};

impl Matrix {
    /// Whether all guards hold for the columns `parts` of two chunks.
    fn guards_hold(&self, parts: impl Fn(Side, usize) -> Result<Parts>) -> Result<bool> {
        for guard in &self.spec.guards {
            if !guard.holds(&parts)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fails if a key of an equality failed on some row of the chunk.
    pub(crate) fn check_keys(&self, side: Side, chunk: &InputChunk) -> Result<()> {
        chunk.check_evaluated(|column| self.spec.theta.keys(side).any(|key| key == column))
    }

    /// Joins a tile in a single pass, if `single_pass` is set and allows it, or probes it for the use `wanted`.
    pub(crate) fn step(
        &mut self,
        step: &Step<'_>,
        tile: &Tile,
        wanted: ProbeResult,
        single_pass: Option<&SinglePassJoin>,
    ) -> Result<TileStep> {
        let whole_filter = self.bring(tile)?;
        if let Some(single_pass) = single_pass
            && !whole_filter
            && let Some(joined) = self.join(step, single_pass)?
        {
            let tile = tile.clone();
            return Ok(TileStep::Joined(JoinedTile { tile, joined }));
        }
        let passes = match (whole_filter, tile.pass) {
            // Partners are chosen among all matches of a row.
            (false, None) if !self.spec.chooses_among_all() => {
                let (left, right) = self.resident_sides()?;
                let _timer = self.metrics.prepare_time.timer();
                self.passes.choose(self.device.as_ref(), left, right)?
            }
            _ => None,
        };
        let Some([first, second]) = passes else {
            let searched = self.search(tile, wanted, whole_filter)?;
            return Ok(TileStep::Searched(Box::new(searched)));
        };
        let of_pass = |pass| Tile {
            pass: Some(pass),
            ..tile.clone()
        };
        let searched = self.search(&of_pass(first), wanted, whole_filter)?;
        self.metrics.indexed_by("overlap_ranges");
        self.tiles.push(of_pass(second));
        Ok(TileStep::Searched(Box::new(searched)))
    }

    /// Uploads the sides of a tile that are not resident. Returns whether the whole filter must be evaluated on its
    /// candidates.
    pub(crate) fn bring(&mut self, tile: &Tile) -> Result<bool> {
        // Rows of other tiles are dropped first, to free their memory.
        let keep = |resident: &mut Option<Resident>, chunk: usize, rows: &Range<usize>| {
            resident.take_if(|r| r.chunk != chunk || r.rows != *rows);
        };
        keep(&mut self.resident_left, tile.left_chunk, &tile.left);
        self.unload_but(tile.left_chunk);
        keep(&mut self.resident_right, self.right_chunks, &tile.right);
        let right_chunk = self
            .right
            .as_ref()
            .ok_or_else(|| BowtieError::Internal("a tile without a right chunk".into()))?;
        let left_chunk = &self.left[tile.left_chunk];
        self.check_keys(Side::Left, left_chunk)?;
        self.check_keys(Side::Right, right_chunk)?;
        let parts = |side: Side, index: usize| match side {
            Side::Left => left_chunk.parts(index),
            Side::Right => right_chunk.parts(index),
        };
        let failed = !left_chunk.failures().is_empty() || !right_chunk.failures().is_empty();
        let chunks = (tile.left_chunk, self.right_chunks);
        let guarded = match self.guarded {
            Some((of, holds)) if of == chunks => holds,
            _ => self.guards_hold(parts)?,
        };
        self.guarded = Some((chunks, guarded));
        let whole_filter = failed || !guarded;
        if self.resident_left.is_none() {
            self.resident_left = Some(Resident {
                chunk: tile.left_chunk,
                rows: tile.left.clone(),
                batch: self.upload(Side::Left, tile.left_chunk, &tile.left)?,
                index: None,
                prepared: PreparedBuild::NotYet,
            });
        }
        if self.resident_right.is_none() {
            self.resident_right = Some(Resident {
                chunk: self.right_chunks,
                rows: tile.right.clone(),
                batch: self.upload(Side::Right, tile.left_chunk, &tile.right)?,
                index: None,
                prepared: PreparedBuild::NotYet,
            });
        }
        Ok(whole_filter)
    }

    /// The rows of both sides of the tile that was brought last.
    pub(crate) fn resident_sides(&self) -> Result<(&DeviceBatch, &DeviceBatch)> {
        match (&self.resident_left, &self.resident_right) {
            (Some(left), Some(right)) => Ok((&left.batch, &right.batch)),
            _ => Err(BowtieError::Internal("a tile without its sides".into())),
        }
    }

    /// All matches of the resident tile by a single pass; `None` if they must be found by ranges.
    fn join(
        &mut self,
        step: &Step<'_>,
        single_pass: &SinglePassJoin,
    ) -> Result<Option<JoinedSides>> {
        let (Some(left), Some(right)) = (&mut self.resident_left, &mut self.resident_right) else {
            return Err(BowtieError::Internal("a tile without its sides".into()));
        };
        let _timer = self.metrics.output_time.timer();
        let (build, probe) = match self.spec.theta.build {
            Side::Left => (left, right),
            Side::Right => (right, left),
        };
        let device = self.device.as_ref();
        let prepared = &mut build.prepared;
        let sides = [&build.batch, &probe.batch];
        single_pass.join(device, &self.metrics, step, &self.spec, prepared, sides)
    }

    /// Indexes the build side of the resident tile, unless it has its index, and probes with the other side.
    fn search(
        &mut self,
        tile: &Tile,
        wanted: ProbeResult,
        whole_filter: bool,
    ) -> Result<ProbedTile> {
        let (Some(left), Some(right)) = (&mut self.resident_left, &mut self.resident_right) else {
            return Err(BowtieError::Internal("a tile without its sides".into()));
        };

        let _timer = self.metrics.prepare_time.timer();
        let device = self.device.as_ref();
        let theta = match tile.pass {
            Some(pass) => self.passes.spec(pass),
            None => &self.spec.theta,
        };
        let program = self.spec.program.as_ref();
        let covered = match whole_filter {
            true => Indexed::Equalities,
            false => Indexed::Comparisons(tile.pass),
        };
        let (build, probe) = match theta.build {
            Side::Left => (&mut *left, &*right),
            Side::Right => (&mut *right, &*left),
        };
        let index = match &build.index {
            Some((of, index)) if *of == covered => Arc::clone(index),
            _ => {
                let (batch, other) = (&build.batch, &probe.batch);
                let index = match whole_filter {
                    true => BuildIndex::by_equalities(device, theta, batch)?,
                    false => BuildIndex::build(device, theta, program, batch, other)?,
                };
                let index = Arc::new(index);
                if let Some(strategy) = index.equi_strategy() {
                    self.metrics.indexed_by(strategy);
                }
                if let Some(sets) = index.sets() {
                    self.metrics.indexed_by(sets.sets.technique);
                    self.metrics.repeated_sets(sets.sets.repeats);
                }
                build.index = Some((covered, Arc::clone(&index)));
                index
            }
        };
        let search = Probe::new(
            device,
            theta,
            program.filter(|_| !whole_filter),
            index,
            &probe.batch,
            if whole_filter {
                ProbeResult::Pairs
            } else {
                wanted
            },
        )?;
        if let Some(tally) = search.set_tally() {
            self.metrics.probed_sets(tally);
        }
        if let Some(counter) = search.counted_by.filter(|by| *by != Counter::Ranges) {
            self.metrics.counted_by(counter);
        }
        Ok(ProbedTile {
            search,
            left: left.batch.clone(),
            right: right.batch.clone(),
            whole_filter,
            left_chunk: tile.left_chunk,
            reservations: [self.left.get(tile.left_chunk), self.right.as_ref()]
                .into_iter()
                .flatten()
                .map(InputChunk::reservation)
                .collect(),
            tile: tile.clone(),
        })
    }
}
