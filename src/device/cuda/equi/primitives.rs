//! [`EquiPrimitives`] of an NVIDIA GPU: each calls the function of `index.rs` or `single_pass.rs`.

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::index;
use crate::device::data::column::Column;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::structures::EquiIndex;
use crate::device::primitives::equi::EquiPrimitives;
use crate::error::Result;
use crate::ir::strategies::EquiStrategy;

impl EquiPrimitives for CudaDevice {
    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex> {
        index::index_keys(self, base, null_equal, strategy)
    }

    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(OrderedRows, Ranges)> {
        index::search_keys(self, index, columns)
    }
}
