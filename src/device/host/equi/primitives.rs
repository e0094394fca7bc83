//! [`EquiPrimitives`] of the CPU backend.

use crate::device::data::column::Column;
use crate::device::data::matches::FirstProbe;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::Paired;
use crate::device::data::structures::{EquiBuild, EquiIndex};
use crate::device::host::device::HostDevice;
use crate::device::host::equi::{index, single_pass};
use crate::device::primitives::device::Device;
use crate::device::primitives::equi::EquiPrimitives;
use crate::error::Result;
use crate::ir::strategies::{EquiStrategy, Materialization};

impl EquiPrimitives for HostDevice {
    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex> {
        self.pool
            .install(|| index::index(&self.budget, base, null_equal, strategy, &|| self.go_on()))
    }

    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(OrderedRows, Ranges)> {
        self.pool
            .install(|| index::search(&self.budget, index, columns, &|| self.go_on()))
    }

    fn equi_build(
        &self,
        keys: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
        payload: &[&Column],
        materialization: Option<Materialization>,
        _first: Option<FirstProbe<'_>>,
    ) -> Result<Option<EquiBuild>> {
        // Output batches that are gathered one by one stay in the cores' caches, so GFTR must be asked for.
        if materialization != Some(Materialization::Gftr) {
            return Ok(None);
        }
        let index = self.equi_index(keys, null_equal, strategy)?;
        let build = single_pass::EquiBuild::new(&self.budget, index, payload)?;
        Ok(Some(EquiBuild {
            strategy: build.index().strategy,
            // The only materialisation of a single-pass join on the host.
            materialization: Materialization::Gftr,
            build: Opaque::new(build),
        }))
    }

    fn equi_join(
        &self,
        build: &EquiBuild,
        _build_payload: &[&Column],
        keys: &[&Column],
        payload: &[&Column],
    ) -> Result<Paired> {
        let build: &single_pass::EquiBuild = build.build.get()?;
        let (probe, ranges) = self.equi_search(build.index(), keys)?;
        single_pass::join(&self.budget, build, &probe, &ranges, payload)
    }
}
