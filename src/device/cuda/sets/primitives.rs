//! [`SetPrimitives`] of an NVIDIA GPU: each calls the function of `index.rs`.

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::sets::index;
use crate::device::cuda::sets::values;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::{SetCounting, SetCounts, SetMatches};
use crate::device::data::structures::{ProbeSets, SetIndex};
use crate::device::primitives::device::Device;
use crate::device::primitives::sets::SetPrimitives;
use crate::error::Result;
use crate::ir::set_predicate::{SetTechnique, SetTest, SetValue};

impl SetPrimitives for CudaDevice {
    fn set_index(
        &self,
        lists: &Column,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
        test: SetTest,
        technique: Option<SetTechnique>,
        probe: &Column,
    ) -> Result<SetIndex> {
        self.check_cancelled()?;
        let index = index::index_sets(self, lists, groups, not_null, test, technique, probe)?;
        Ok(SetIndex {
            technique: index.technique(),
            repeats: index.sets().repeats(),
            index: Opaque::new(index),
        })
    }

    fn set_search(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        not_null: &[&Keys],
    ) -> Result<SetMatches> {
        index::search_sets(self, index, lists, groups, not_null)
    }

    fn set_count(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        counting: SetCounting,
    ) -> Result<SetCounts> {
        index::count_sets(self, index, lists, groups, counting)
    }

    fn probe_sets(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
    ) -> Result<ProbeSets> {
        let sets = values::encode_probe_sets(self, index.index.get()?, lists, groups)?;
        Ok(ProbeSets(Opaque::new(sets)))
    }

    fn set_values(
        &self,
        index: &SetIndex,
        probe: &ProbeSets,
        pairs: (&Buffer<u32>, &Buffer<u32>),
        value: SetValue,
    ) -> Result<Column> {
        self.check_cancelled()?;
        values::values_of_pairs(self, index.index.get()?, probe.0.get()?, pairs, value)
    }

    fn occurrences(
        &self,
        matches: &OrderedRows,
        ranges: &Ranges,
        rows: usize,
    ) -> Result<Buffer<u32>> {
        index::count_occurrences(self, matches, ranges, rows)
    }
}
