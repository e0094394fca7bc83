//! Long ranges come out as runs: a slice of the sorted side's columns, which need no copy once they are in sorted order,
//! beside the searching row's values, repeated. So a high selectivity costs no more than a low one.

use std::sync::Arc;

use parking_lot::Mutex;

use super::matrix::SearchedTile;
use super::pieces::PIECE_ROWS;
use crate::column::DeviceBatch;
use crate::device::{Column, Device};
use crate::error::{BowtieError, Result};
use crate::spec::{JoinSpec, Output, Side};

/// Most runs that one step emits: enough to hide the step's own cost.
const RUNS_PER_STEP: usize = 512;

/// A row of repeated values is taken to have so many bytes when a step's share of the device's budget is reckoned.
const REPEATED_BYTES: u64 = 16;

/// The pairs of a tile in which nothing is tested, as runs.
#[derive(Debug)]
pub(super) struct RunsOfTile {
    tile: Arc<SearchedTile>,
    /// The output's columns of the sorted side in sorted order; `None` for those of the searching side.
    clustered: Vec<Option<Column>>,
    sorted: Side,
    next: usize,
}

impl RunsOfTile {
    /// Whether runs pay for a tile with `total` pairs.
    pub(super) fn pay(device: &dyn Device, tile: &SearchedTile, total: u64) -> bool {
        let positions = tile.search.positions().max(1) as u64;
        tile.search.is_untested()
            && device
                .long_run()
                .is_some_and(|run| total / positions >= run)
    }

    pub(super) fn new(
        device: &dyn Device,
        spec: &JoinSpec,
        tile: Arc<SearchedTile>,
    ) -> Result<Self> {
        let sorted = spec.theta.sorted;
        let clustered = spec
            .output
            .iter()
            .map(|output| match output {
                Output::Column(side, i) if *side == sorted => {
                    let column = tile.of(sorted).column(*i)?;
                    tile.search.cluster(device, column).map(Some)
                }
                _ => Ok(None),
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            tile,
            clustered,
            sorted,
            next: 0,
        })
    }

    /// The searching position whose pairs come next.
    pub(super) fn position(&self) -> usize {
        self.next
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.tile.search.positions()
    }

    /// The runs of the next searching rows.
    pub(super) fn step(
        &mut self,
        device: &dyn Device,
        spec: &JoinSpec,
    ) -> Result<Vec<DeviceBatch>> {
        let first = self.next;
        let room = device.budget().limit() / 8 / (PIECE_ROWS as u64 * REPEATED_BYTES);
        let runs = RUNS_PER_STEP
            .min(room.max(1) as usize)
            .min(self.tile.search.positions() - first);
        let made: Vec<Mutex<Vec<DeviceBatch>>> = (0..runs).map(|_| Mutex::default()).collect();
        device.for_each_piece(runs, &|i| {
            *made[i].lock() = self.run(device, spec, first + i)?;
            Ok(())
        })?;
        self.next += runs;
        Ok(made.into_iter().flat_map(Mutex::into_inner).collect())
    }

    /// All pairs of one searching row.
    fn run(
        &self,
        device: &dyn Device,
        spec: &JoinSpec,
        position: usize,
    ) -> Result<Vec<DeviceBatch>> {
        let (row, range) = self.tile.search.range_at(device, position)?;
        if range.is_empty() {
            return Ok(vec![]);
        }
        let longest = range.len().min(PIECE_ROWS);
        // One repeated array serves all pieces of the run.
        let repeated = spec
            .output
            .iter()
            .map(|output| match output {
                Output::Column(side, i) if *side != self.sorted => {
                    let column = self.tile.of(*side).column(*i)?;
                    device.repeat(column, row, longest).map(Some)
                }
                _ => Ok(None),
            })
            .collect::<Result<Vec<_>>>()?;
        range
            .clone()
            .step_by(PIECE_ROWS)
            .map(|from| {
                let len = PIECE_ROWS.min(range.end - from);
                let columns = self
                    .clustered
                    .iter()
                    .zip(&repeated)
                    .map(|columns| match columns {
                        (Some(clustered), _) => device.slice(clustered, from, len),
                        (None, Some(repeated)) => device.slice(repeated, 0, len),
                        (None, None) => Err(BowtieError::Internal("a mark among pairs".into())),
                    })
                    .map(|column| column.map(|c| Some(Arc::new(c))))
                    .collect::<Result<_>>()?;
                Ok(DeviceBatch::new(len, columns))
            })
            .collect()
    }
}
