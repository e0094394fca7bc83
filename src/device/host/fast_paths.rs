//! [`FastPaths`] of the CPU backend: equi-joins that materialise their output in the probe pass.

use std::ops::Range;

use crate::device::data::column::Column;
use crate::device::data::matches::FirstProbe;
use crate::device::data::opaque::Opaque;
use crate::device::data::results::Paired;
use crate::device::data::structures::EquiBuild;
use crate::device::host::aggregate::group_program;
use crate::device::host::device::HostDevice;
use crate::device::host::equi::single_pass;
use crate::device::primitives::device::Device;
use crate::device::primitives::equi::EquiPrimitives;
use crate::device::primitives::fast_paths::FastPaths;
use crate::error::Result;
use crate::ir::group_program::GroupProgram;
use crate::ir::strategies::{EquiStrategy, Materialization};

impl FastPaths for HostDevice {
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

    fn fold_groups(
        &self,
        within: Range<usize>,
        program: &GroupProgram,
        columns: &[&Column],
    ) -> Result<Option<Vec<u64>>> {
        let check_cancelled = || self.check_cancelled();
        self.pool
            .install(|| group_program::fold(within, program, columns, &check_cancelled))
    }
}
