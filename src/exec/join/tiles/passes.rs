//! [`Passes`]: a tile whose matches are found by several range joins, one after the other, in which nothing is tested.

use crate::device::batches::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::spec::interval::{Ordered, OverlapPasses};
use crate::spec::join::{JoinSpec, MatchSpec};

/// The ways to find the matches of a tile, each by two passes.
#[derive(Debug)]
pub(crate) struct Passes(Vec<OverlapPasses>);

impl Passes {
    pub(crate) fn of(spec: &JoinSpec) -> Self {
        Self(OverlapPasses::of(spec))
    }

    /// The condition of a pass, by its number.
    pub(crate) fn spec(&self, pass: usize) -> &MatchSpec {
        &self.0[pass / 2].passes[pass % 2]
    }

    /// The first and the second pass over a tile with these rows; `None` if all of its matches are found at once.
    pub(crate) fn choose(
        &self,
        device: &dyn Device,
        left: &DeviceBatch,
        right: &DeviceBatch,
    ) -> Result<Option<[usize; 2]>> {
        for (way, OverlapPasses { ordered, .. }) in self.0.iter().enumerate() {
            let [of_left, of_right] = ordered;
            if are_ordered(device, left, of_left)? && are_ordered(device, right, of_right)? {
                return Ok(Some([2 * way, 2 * way + 1]));
            }
        }
        Ok(None)
    }
}

/// Whether the intervals of these rows are as they must be, as their keys compare.
fn are_ordered(device: &dyn Device, rows: &DeviceBatch, ordered: &Ordered) -> Result<bool> {
    let (low, domain) = device.order_keys(rows.column(ordered.ends.low)?)?;
    let high = device.order_keys_in(&domain, rows.column(ordered.ends.high)?)?;
    device.are_ordered(&low, &high, ordered.strictly)
}
