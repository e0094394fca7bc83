//! [`EquiPrimitives`] of the CPU backend.

use crate::device::data::column::Column;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::structures::EquiIndex;
use crate::device::host::device::HostDevice;
use crate::device::host::equi::index;
use crate::device::primitives::device::Device;
use crate::device::primitives::equi::EquiPrimitives;
use crate::error::Result;
use crate::ir::strategies::EquiStrategy;

impl EquiPrimitives for HostDevice {
    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex> {
        self.pool.install(|| {
            index::index(&self.budget, base, null_equal, strategy, &|| {
                self.check_cancelled()
            })
        })
    }

    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(OrderedRows, Ranges)> {
        self.pool
            .install(|| index::search(&self.budget, index, columns, &|| self.check_cancelled()))
    }
}
