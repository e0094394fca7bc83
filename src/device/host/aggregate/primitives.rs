//! [`AggregatePrimitives`] of the CPU backend.

use crate::device::data::column::Column;
use crate::device::data::results::Aggregated;
use crate::device::host::aggregate::strategies;
use crate::device::host::device::HostDevice;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::ir::fold::Fold;
use crate::ir::strategies::Grouping;

impl AggregatePrimitives for HostDevice {
    fn aggregate(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
        wanted: Grouping,
    ) -> Result<Aggregated> {
        let check_cancelled = || self.check_cancelled();
        // Columns are never moved, so there is no materialisation to choose.
        let strategy = wanted.strategy;
        self.pool.install(|| {
            strategies::aggregate(&self.budget, rows, keys, folds, strategy, &check_cancelled)
        })
    }
}
