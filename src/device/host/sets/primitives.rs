//! [`SetPrimitives`] of the CPU backend.

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::{SetCounting, SetCounts, SetMatches};
use crate::device::data::structures::{ProbeSets, SetIndex};
use crate::device::host::device::HostDevice;
use crate::device::host::sets::{index as sets, values};
use crate::device::primitives::device::Device;
use crate::device::primitives::sets::SetPrimitives;
use crate::error::Result;
use crate::ir::set_predicate::{SetTechnique, SetTest, SetValue};

impl SetPrimitives for HostDevice {
    fn set_index(
        &self,
        lists: &Column,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
        test: SetTest,
        technique: Option<SetTechnique>,
        probe: &Column,
    ) -> Result<SetIndex> {
        let check_cancelled = || self.check_cancelled();
        let by = (technique, probe);
        let index = self.pool.install(|| {
            sets::index(
                &self.budget,
                lists,
                groups,
                not_null,
                test,
                by,
                &check_cancelled,
            )
        })?;
        Ok(SetIndex {
            technique: index.technique(),
            repeats: index.sets.members.repeats(),
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
        let (index, check_cancelled) = (index.index.get()?, || self.check_cancelled());
        self.pool.install(|| {
            sets::search(
                &self.budget,
                index,
                lists,
                groups,
                not_null,
                &check_cancelled,
            )
        })
    }

    fn set_count(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        counting: SetCounting,
    ) -> Result<SetCounts> {
        let (index, check_cancelled) = (index.index.get()?, || self.check_cancelled());
        self.pool.install(|| {
            sets::count(
                &self.budget,
                index,
                lists,
                groups,
                counting,
                &check_cancelled,
            )
        })
    }

    fn probe_sets(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
    ) -> Result<ProbeSets> {
        let (index, check_cancelled) = (index.index.get()?, || self.check_cancelled());
        let sets = self
            .pool
            .install(|| values::probe_sets(&self.budget, index, lists, groups, &check_cancelled))?;
        Ok(ProbeSets(Opaque::new(sets)))
    }

    fn set_values(
        &self,
        index: &SetIndex,
        probe: &ProbeSets,
        pairs: (&Buffer<u32>, &Buffer<u32>),
        value: SetValue,
    ) -> Result<Column> {
        let (index, probe) = (index.index.get()?, probe.0.get()?);
        let check_cancelled = || self.check_cancelled();
        self.pool.install(|| {
            values::set_values(&self.budget, index, probe, pairs, value, &check_cancelled)
        })
    }

    fn occurrences(
        &self,
        matches: &OrderedRows,
        ranges: &Ranges,
        rows: usize,
    ) -> Result<Buffer<u32>> {
        sets::occurrences(&self.budget, matches, ranges, rows)
    }
}
