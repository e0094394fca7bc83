//! [`AggregatePrimitives`] of an NVIDIA GPU: by kernels, or by the host fallback where a column cannot be aggregated by
//! kernels.

use crate::device::cuda::aggregate::fold;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::fallback;
use crate::device::data::column::Column;
use crate::device::data::results::Aggregated;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::ir::fold::Fold;
use crate::ir::strategies::Grouping;

impl AggregatePrimitives for CudaDevice {
    fn aggregate(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
        wanted: Grouping,
    ) -> Result<Aggregated> {
        self.check_cancelled()?;
        if rows > 0
            && let Some(aggregated) = fold::aggregate_on_gpu(self, rows, keys, folds, wanted)?
        {
            return Ok(aggregated);
        }
        fallback::aggregate_on_host(self, rows, keys, folds, wanted)
    }
}
