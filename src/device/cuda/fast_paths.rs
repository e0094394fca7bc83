//! [`FastPaths`] of an NVIDIA GPU: each calls the function of its family's folder.

use std::ops::Range;

use crate::device::cuda::codegen::launch;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::presorted;
use crate::device::cuda::equi::single_pass;
use crate::device::cuda::semi::key_bitmap;
use crate::device::cuda::theta::cross_product;
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
        let build = single_pass::prepare_build(
            self,
            keys,
            null_equal,
            strategy,
            payload,
            materialization,
            first,
        )?;
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
        let repeats = single_pass::repeat_in_samples(self, build, probe, null_equal);
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
        single_pass::join_single_pass(self, build.build.get()?, build_payload, keys, payload)
    }

    fn merge_join(
        &self,
        keys: PresortedKeys<'_>,
        materialization: Option<Materialization>,
        build_payload: &[&Column],
        payload: &[&Column],
    ) -> Result<Option<Joined>> {
        self.check_cancelled()?;
        presorted::merged_pairs(self, keys, materialization, build_payload, payload)
    }

    fn merge_keep(
        &self,
        keys: PresortedKeys<'_>,
        matched: bool,
        kept: &[&Column],
    ) -> Result<Option<Kept>> {
        self.check_cancelled()?;
        crate::device::cuda::semi::presorted::merged_rows(self, keys, matched, kept)
    }

    fn fold_groups(
        &self,
        within: Range<usize>,
        program: &GroupProgram,
        columns: &[&Column],
    ) -> Result<Option<Vec<u64>>> {
        self.check_cancelled()?;
        launch::fold_groups_generated(self, within, program, columns)
    }

    fn likely_key_range(&self, columns: &[&Column]) -> Result<Option<KeyRange>> {
        self.check_cancelled()?;
        key_bitmap::likely_range_of_keys(self, columns)
    }

    fn cross_product(
        &self,
        column: &Column,
        repeated: bool,
        rows: usize,
        from: u64,
        len: usize,
    ) -> Result<Option<Column>> {
        cross_product::cross_product_column(self, column, repeated, rows, from, len)
    }
}
