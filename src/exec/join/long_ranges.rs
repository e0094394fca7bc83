//! Long ranges of a tile, whose matches a download makes as slices. In: a counted tile without tests, flags or residual filter. Out:
//! [`LongRanges`].

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::device::primitives::device::Device;
use crate::device::row_width::mean_bytes;
use crate::error::{BowtieError, Result};
use crate::exec::chunk::long_ranges::{LongRanges, RunColumn};
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::spec::join::{JoinSpec, Output};

/// Whether a tile with `total` matches has enough of them a probe row to be emitted as slices.
pub(crate) fn pay(device: &dyn Device, tile: &ProbedTile, total: u64) -> bool {
    let positions = tile.search.positions().max(1) as u64;
    // Where a set predicate lists the build rows of each probe row, the columns would be copied for each list.
    tile.search.is_untested()
        && tile.search.set_tally().is_none()
        && device
            .profile()
            .long_range
            .is_some_and(|run| total / positions >= run)
}

/// Gathers the build columns into sorted order and downloads all columns and ranges.
pub(crate) fn from_tile(
    device: &dyn Device,
    spec: &JoinSpec,
    tile: &ProbedTile,
    total: u64,
) -> Result<LongRanges> {
    let mut held = vec![];
    let mut row_bytes = 0;
    let mut mean = |array: &ArrayRef| -> Result<()> {
        row_bytes += mean_bytes(array)? as usize;
        Ok(())
    };
    let columns = spec
        .output
        .iter()
        .map(|output| match output {
            Output::Column(side, i) if *side == tile.search.build_side => {
                let column = tile.search.cluster(device, tile.of(*side).column(*i)?)?;
                let array = device.download(&column)?;
                mean(&array)?;
                held.push(Arc::new(column));
                Ok(RunColumn::Clustered(array))
            }
            Output::Column(side, i) => {
                let column = tile.of(*side).column(*i)?;
                let array = device.download(column)?;
                mean(&array)?;
                held.push(Arc::clone(column));
                Ok(RunColumn::Repeated(array))
            }
            Output::Mark | Output::Value(_) => {
                Err(BowtieError::Internal("no column of long ranges".into()))
            }
        })
        .collect::<Result<_>>()?;
    let bytes = tile.search.positions() as u64 * 12;
    let lease = device.budget().lease(bytes, "long ranges")?;
    let ranges = tile.search.ranges(device)?;
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let held = (held, lease, tile.reservations.clone());
    Ok(LongRanges::new(columns, ranges, (total, row_bytes), held))
}
