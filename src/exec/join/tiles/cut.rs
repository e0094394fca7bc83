//! Cuts tiles that do not fit the device: in halves, or in several parts of the probe side.

use crate::error::{BowtieError, Result};
use crate::exec::join::tiles::matrix::Matrix;
use crate::exec::join::tiles::tile::{LEAST_ROWS, LEAST_SETS, Tile};
use crate::exec::memory::step::Step;
use crate::ir::side::Side;
use crate::ir::strategies::Strategy;

impl Matrix {
    /// Puts back a tile that has emitted nothing yet, after `error`: in parts of the probe side if its probe requested
    /// more than the whole budget, whole if rows were evicted, otherwise in halves.
    ///
    /// # Errors
    /// `error`, if none of these helps or the step must defer. The tile is put back whole.
    pub(crate) fn put_back(
        &mut self,
        step: &Step<'_>,
        tile: &Tile,
        error: BowtieError,
    ) -> Result<()> {
        if step.may_shrink(&error) {
            let parts = error.splits_that_fit();
            if parts.is_some_and(|parts| self.cut_probe(tile, parts)) {
                return Ok(());
            }
            let evicted = error.is_out_of_device_memory() && self.evict();
            if !evicted && self.halve(tile) {
                return Ok(());
            }
            self.tiles.push(tile.clone());
            return match evicted {
                true => Ok(()),
                false => Err(error),
            };
        }
        self.tiles.push(tile.clone());
        Err(error)
    }

    /// Cuts the probe side of a tile, and keeps the index of its build side. False if there is no index, or too few
    /// rows.
    fn cut_probe(&mut self, tile: &Tile, parts: u64) -> bool {
        let probe = self.matched_by(tile).build.other();
        let most = tile.rows(probe).len() / self.least_rows();
        let parts = parts.min(most as u64) as usize;
        if parts < 2 || !self.has_index(tile) {
            return false;
        }
        self.tiles.extend(tile.cut(probe, parts).into_iter().rev());
        true
    }

    /// Whether the build side is resident with its index for the tile.
    fn has_index(&self, tile: &Tile) -> bool {
        let build = match self.matched_by(tile).build {
            Side::Left => &self.resident_left,
            Side::Right => &self.resident_right,
        };
        build.as_ref().is_some_and(|r| r.index.is_some())
    }

    /// The number of rows down to which the side of a tile is halved.
    fn least_rows(&self) -> usize {
        match self.spec.theta.strategy() {
            Strategy::Set(_) => LEAST_SETS,
            _ => LEAST_ROWS,
        }
    }

    /// Whether [`Self::halve`] would halve the tile.
    pub(crate) fn can_halve(&self, tile: &Tile) -> bool {
        tile.halves(self.least_rows(), self.keeps_left_whole)
            .is_some()
    }

    /// Puts back the two halves of a tile; false if it is too small. No rows of it stay resident, so that a query that
    /// waits for the memory of others holds as little as possible.
    pub(crate) fn halve(&mut self, tile: &Tile) -> bool {
        let halves = tile.halves(self.least_rows(), self.keeps_left_whole);
        let Some((first, second)) = halves else {
            return false;
        };
        let side = self.matched_by(tile).build;
        let has_index = self.has_index(tile);
        self.resident_left = None;
        self.resident_right = None;
        // If the index did not fit, all tiles of the same build rows are cut likewise, so that the index of a half
        // serves all of them.
        let (others, rest) = match has_index || first.rows(side) == tile.rows(side) {
            true => (vec![], std::mem::take(&mut self.tiles)),
            false => self.tiles.drain(..).partition(|other| {
                other.left_chunk == tile.left_chunk && other.rows(side) == tile.rows(side)
            }),
        };
        self.tiles = rest;
        for half in [second, first] {
            let rows = half.rows(side);
            let of_others = others.iter().map(|other| other.with(side, rows.clone()));
            self.tiles.extend(of_others);
            self.tiles.push(half);
        }
        true
    }

    /// Whether the compiled filter alone decides which pairs match.
    pub(crate) fn tests_every_pair(&self) -> bool {
        let theta = &self.spec.theta;
        self.spec.program.is_some()
            && theta.set().is_none()
            && theta.comparisons.is_empty()
            && theta.equalities.is_empty()
    }
}
