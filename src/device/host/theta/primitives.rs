//! [`ThetaPrimitives`] and [`FoldPrimitives`] of the CPU backend.

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Bound, Matches};
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::device::data::results::Counted;
use crate::device::data::structures::ZonedKeys;
use crate::device::host::columns::values;
use crate::device::host::device::HostDevice;
use crate::device::host::theta::{
    cover_fold, expand, partners, range, range_fold, tested_fold, zone_map,
};
use crate::device::primitives::folds::FoldPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::error::Result;
use crate::ir::comparison::Comparison;
use crate::ir::fold::RangeFold;
use crate::ir::partners::PartnerLimit;

impl ThetaPrimitives for HostDevice {
    fn zone_keys(&self, keys: &Keys, build: &OrderedRows) -> Result<ZonedKeys> {
        self.pool
            .install(|| zone_map::zone_keys(&self.budget, keys, build))
            .map(|keys| ZonedKeys(Opaque::new(keys)))
    }

    fn range_bounds(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        bounds: &[Bound<'_>],
        groups: Option<&Buffer<u32>>,
    ) -> Result<Ranges> {
        self.pool
            .install(|| range::range_bounds(&self.budget, build, probe, bounds, groups))
    }

    fn limit_ranges(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        ranges: &Ranges,
        centre: Option<&Keys>,
        limit: PartnerLimit,
    ) -> Result<Ranges> {
        self.pool
            .install(|| partners::limit_ranges(&self.budget, build, probe, ranges, centre, limit))
    }

    fn count_matches(&self, matches: Matches<'_>, exists_only: bool) -> Result<Counted> {
        self.pool
            .install(|| expand::count_matches(&self.budget, matches, exists_only, &self.cancelled))
    }

    fn scan(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
        expand::scan(&self.budget, counts)
    }

    fn total(&self, offsets: &Buffer<u64>) -> Result<u64> {
        Ok(offsets.on_host()?.last().copied().unwrap_or(0))
    }

    fn piece_end(&self, offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64> {
        expand::piece_end(offsets, from, target, most)
    }

    fn expand(
        &self,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Pairs> {
        let window = (from, len);
        self.pool
            .install(|| expand::expand(&self.budget, matches, offsets, window, &self.cancelled))
    }

    fn row_counts(
        &self,
        probe: &OrderedRows,
        counts: &Buffer<u32>,
        rows: usize,
    ) -> Result<Buffer<u32>> {
        range::row_counts(&self.budget, probe, counts, rows)
    }

    fn cover(&self, build: &OrderedRows, ranges: &Ranges, rows: usize) -> Result<Buffer<u32>> {
        range::cover(&self.budget, build, ranges, rows)
    }

    fn sample_selectivity(
        &self,
        tests: &[(&Keys, Comparison, &Keys)],
        sample: usize,
    ) -> Result<Vec<f64>> {
        tests
            .iter()
            .map(|(left, op, right)| values::sample_selectivity(left, *op, right, sample))
            .collect()
    }
}

impl FoldPrimitives for HostDevice {
    fn weigh(&self, values: &Column, weights: &Buffer<u32>) -> Result<Column> {
        range_fold::weigh(&self.budget, values, weights)
    }

    fn sum(&self, values: &Column) -> Result<Column> {
        range_fold::sum(&self.budget, values)
    }

    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column> {
        range_fold::weigh_count(&self.budget, values, weights)
    }

    fn fold_ranges(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column> {
        let budget = &self.budget;
        self.pool.install(|| match fold {
            RangeFold::Count => range_fold::range_count(budget, values, matches, rows),
            RangeFold::Sum => range_fold::range_sum(budget, values, matches, rows),
            RangeFold::Min => range_fold::range_extreme(budget, values, matches, rows, false),
            RangeFold::Max => range_fold::range_extreme(budget, values, matches, rows, true),
        })
    }

    fn fold_tested(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column> {
        let (budget, cancelled) = (&self.budget, self.cancelled.as_ref());
        self.pool
            .install(|| tested_fold::fold_tested(budget, fold, values, matches, rows, cancelled))
    }

    fn fold_covers(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column> {
        let budget = &self.budget;
        match fold {
            RangeFold::Count => cover_fold::cover_count(budget, values, matches, rows),
            RangeFold::Sum => cover_fold::cover_sum(budget, values, matches, rows),
            RangeFold::Min => cover_fold::cover_extreme(budget, values, matches, rows, false),
            RangeFold::Max => cover_fold::cover_extreme(budget, values, matches, rows, true),
        }
    }
}
