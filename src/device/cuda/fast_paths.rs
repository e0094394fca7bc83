//! [`FastPaths`] of an NVIDIA GPU: each calls the method of its family's folder.

use std::ops::Range;

use crate::device::cuda::device::CudaDevice;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::KeyRange;
use crate::device::data::matches::FirstProbe;
use crate::device::data::opaque::Opaque;
use crate::device::data::results::{Joined, Kept, Paired};
use crate::device::data::structures::EquiBuild;
use crate::device::presorted::PresortedKeys;
use crate::device::primitives::device::Device;
use crate::device::primitives::fast_paths::FastPaths;
use crate::error::{IfItFits as _, Result};
use crate::ir::group_program::GroupProgram;
use crate::ir::strategies::{EquiStrategy, Materialization};

impl FastPaths for CudaDevice {
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

    fn only_build_repeats(
        &self,
        build: &[&Column],
        probe: &[&Column],
        null_equal: bool,
    ) -> Result<bool> {
        let repeats = self.repeat_in_samples(build, probe, null_equal);
        Ok(repeats.if_it_fits()?.unwrap_or(false))
    }

    fn equi_join(
        &self,
        build: &EquiBuild,
        build_payload: &[&Column],
        keys: &[&Column],
        payload: &[&Column],
    ) -> Result<Paired> {
        self.check_cancelled()?;
        self.join_single_pass(build.build.get()?, build_payload, keys, payload)
    }

    fn merge_join(
        &self,
        keys: PresortedKeys<'_>,
        materialization: Option<Materialization>,
        build_payload: &[&Column],
        payload: &[&Column],
    ) -> Result<Option<Joined>> {
        self.check_cancelled()?;
        self.merged_pairs(keys, materialization, build_payload, payload)
    }

    fn merge_keep(
        &self,
        keys: PresortedKeys<'_>,
        matched: bool,
        kept: &[&Column],
    ) -> Result<Option<Kept>> {
        self.check_cancelled()?;
        self.merged_rows(keys, matched, kept)
    }

    fn fold_groups(
        &self,
        within: Range<usize>,
        program: &GroupProgram,
        columns: &[&Column],
    ) -> Result<Option<Vec<u64>>> {
        self.check_cancelled()?;
        self.fold_groups_generated(within, program, columns)
    }

    fn likely_key_range(&self, columns: &[&Column]) -> Result<Option<KeyRange>> {
        self.check_cancelled()?;
        self.likely_range_of_keys(columns)
    }

    fn cross_product(
        &self,
        column: &Column,
        repeated: bool,
        rows: usize,
        from: u64,
        len: usize,
    ) -> Result<Option<Column>> {
        self.cross_product_column(column, repeated, rows, from, len)
    }
}
