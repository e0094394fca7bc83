//! [`ProbedTile`]: a resident tile whose matches are counted. [`TileStep`]: what a step makes of a tile.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::device::batches::batch::DeviceBatch;
use crate::device::data::buffer::Buffer;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::exec::join::fast_paths::single_pass::JoinedSides;
use crate::exec::join::residual;
use crate::exec::join::tiles::tile::Tile;
use crate::ir::side::Side;
use crate::ops::probe::{Probe, RowPairs};
use crate::spec::join::JoinSpec;

/// A resident tile, probed and counted.
#[derive(Debug)]
pub(crate) struct ProbedTile {
    pub left: DeviceBatch,
    pub right: DeviceBatch,
    /// The ranges and counts of its probe side.
    pub search: Probe,
    /// The source's whole filter must be evaluated on the candidates, since one of its expressions failed on a row, or
    /// a guard does not hold.
    pub whole_filter: bool,
    pub left_chunk: usize,
    /// The memory pool's reservations of the chunks whose arrays the tile shares.
    pub reservations: Vec<Arc<MemoryReservation>>,
    pub(crate) tile: Tile,
}

impl ProbedTile {
    pub(crate) fn of(&self, side: Side) -> &DeviceBatch {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// Expands candidates `from .. from + len` and keeps those that satisfy the filters.
    pub(crate) fn matching_pairs(
        &self,
        device: &dyn Device,
        join: &JoinSpec,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<RowPairs> {
        let mut pairs = self.search.pairs(device, offsets, from, len)?;
        for filter in self.filters(join) {
            if pairs.len() == 0 {
                break;
            }
            let keep = residual::evaluate(device, filter, &self.left, &self.right, &pairs)?;
            pairs = RowPairs {
                left: device.compact(&pairs.left, &keep)?,
                right: device.compact(&pairs.right, &keep)?,
            };
        }
        Ok(pairs)
    }

    /// The filters that DataFusion evaluates on the tile's candidates.
    pub(crate) fn filters<'a>(&self, join: &'a JoinSpec) -> Vec<&'a JoinFilter> {
        match (self.whole_filter, self.search.is_programmed()) {
            (true, _) => join.whole_filter.iter().collect(),
            (false, true) => join.unprogrammed().collect(),
            (false, false) => join.residual.iter().collect(),
        }
    }
}

/// A tile whose matches were materialised as they were found.
#[derive(Debug)]
pub(crate) struct JoinedTile {
    pub(crate) tile: Tile,
    pub(crate) joined: JoinedSides,
}

/// The result of a step on a tile.
#[derive(Debug)]
pub(crate) enum TileStep {
    /// Its matches are counted, and still to be expanded.
    Searched(Box<ProbedTile>),
    /// All its matches.
    Joined(JoinedTile),
}
