//! [`EquiPrimitives`] of an NVIDIA GPU: each calls the method of `index.rs` or `single_pass.rs`.

use crate::device::cuda::device::CudaDevice;
use crate::device::data::column::Column;
use crate::device::data::matches::FirstProbe;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::Paired;
use crate::device::data::structures::{EquiBuild, EquiIndex};
use crate::device::primitives::device::Device;
use crate::device::primitives::equi::EquiPrimitives;
use crate::error::Result;
use crate::ir::strategies::{EquiStrategy, Materialization};

impl EquiPrimitives for CudaDevice {
    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex> {
        self.index_keys(base, null_equal, strategy)
    }

    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(OrderedRows, Ranges)> {
        self.search_keys(index, columns)
    }

    fn equi_build(
        &self,
        keys: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
        payload: &[&Column],
        materialization: Option<Materialization>,
        first: Option<FirstProbe<'_>>,
    ) -> Result<Option<EquiBuild>> {
        let build =
            self.prepare_build(keys, null_equal, strategy, payload, materialization, first)?;
        Ok(build.map(|build| EquiBuild {
            strategy: build.strategy(),
            materialization: build.materialization(),
            build: Opaque::new(build),
        }))
    }

    fn equi_join(
        &self,
        build: &EquiBuild,
        build_payload: &[&Column],
        keys: &[&Column],
        payload: &[&Column],
    ) -> Result<Paired> {
        self.go_on()?;
        self.join_at_once(build.build.get()?, build_payload, keys, payload)
    }
}
