//! [`ThetaPrimitives`] and [`FoldPrimitives`] of an NVIDIA GPU: kernels where there are some for the type, otherwise
//! the host fallback, with transfers in both directions.

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::fallback;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::theta::choose_count;
use crate::device::cuda::theta::cover_fold;
use crate::device::cuda::theta::matches_on_host;
use crate::device::cuda::theta::pair_program;
use crate::device::cuda::theta::partners;
use crate::device::cuda::theta::range;
use crate::device::cuda::theta::range_fold;
use crate::device::cuda::theta::tested_fold;
use crate::device::cuda::theta::zone_map;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Bound, Matches};
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::device::data::results::{Counted, Counter};
use crate::device::data::structures::ZonedKeys;
use crate::device::primitives::device::Device;
use crate::device::primitives::folds::FoldPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::error::Result;
use crate::ir::comparison::Comparison;
use crate::ir::fold::RangeFold;
use crate::ir::partners::PartnerLimit;

impl ThetaPrimitives for CudaDevice {
    fn zone_keys(&self, keys: &Keys, build: &OrderedRows) -> Result<ZonedKeys> {
        zone_map::zone_keys(&self.stream, keys, build).map(|keys| ZonedKeys(Opaque::new(keys)))
    }

    fn range_bounds(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        bounds: &[Bound<'_>],
        groups: Option<&Buffer<u32>>,
    ) -> Result<Ranges> {
        range::range_bounds(&self.stream, build, probe, bounds, groups)
    }

    fn limit_ranges(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        ranges: &Ranges,
        centre: Option<&Keys>,
        limit: PartnerLimit,
    ) -> Result<Ranges> {
        partners::limit_ranges(&self.stream, build, probe, ranges, centre, limit)
    }

    fn count_matches(&self, matches: Matches<'_>, exists_only: bool) -> Result<Counted> {
        self.check_cancelled()?;
        let check_cancelled = || self.check_cancelled();
        if let Some(program) = &matches.program {
            let counted = pair_program::program_count(
                &self.stream,
                matches,
                program,
                exists_only,
                &check_cancelled,
            )?;
            return match counted {
                Some(counts) => Ok(Counter::Program.of(counts)),
                None => matches_on_host::count_on_host(self, matches, exists_only),
            };
        }
        if matches.tests.is_empty() {
            let counts = range::range_counts(&self.stream, matches.ranges, exists_only)?;
            return Ok(Counter::Ranges.of(counts));
        }
        choose_count::count_cheapest(self, matches, exists_only, &check_cancelled)
    }

    fn scan(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
        scan::scan_offsets(&self.stream, counts)
    }

    fn total(&self, offsets: &Buffer<u64>) -> Result<u64> {
        match offsets.len() {
            0 => Ok(0),
            len => self.stream.read_word(memory(offsets)?, len - 1),
        }
    }

    fn piece_end(&self, offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64> {
        range::piece_end(&self.stream, offsets, from, target, most)
    }

    fn expand(
        &self,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Pairs> {
        if let Some(program) = &matches.program {
            let pairs = pair_program::program_expand(
                &self.stream,
                matches,
                program,
                offsets,
                from,
                len,
                &|| self.check_cancelled(),
            )?;
            return match pairs {
                Some(pairs) => Ok(pairs),
                None => matches_on_host::expand_on_host(self, matches, offsets, from, len),
            };
        }
        match matches.tests.is_empty() {
            true => range::expand_ranges(
                &self.stream,
                matches.build,
                matches.probe,
                matches.ranges,
                offsets,
                from,
                len,
            ),
            false => {
                match zone_map::zones_expand(&self.stream, matches, offsets, from, len, &|| {
                    self.check_cancelled()
                })? {
                    Some(pairs) => Ok(pairs),
                    None => matches_on_host::expand_on_host(self, matches, offsets, from, len),
                }
            }
        }
    }

    fn row_counts(
        &self,
        probe: &OrderedRows,
        counts: &Buffer<u32>,
        rows: usize,
    ) -> Result<Buffer<u32>> {
        rows::scatter(&self.stream, &probe.rows, counts, rows)
    }

    fn cover(&self, build: &OrderedRows, ranges: &Ranges, rows: usize) -> Result<Buffer<u32>> {
        range::cover(&self.stream, build, ranges, rows)
    }

    fn sample_selectivity(
        &self,
        tests: &[(&Keys, Comparison, &Keys)],
        sample: usize,
    ) -> Result<Vec<f64>> {
        let mut shares = Vec::with_capacity(tests.len());
        for (left, op, right) in tests {
            let (left, right) = (
                fallback::sample(self, left, sample)?,
                fallback::sample(self, right, sample)?,
            );
            shares.extend(
                self.fallback
                    .sample_selectivity(&[(&left, *op, &right)], sample)?,
            );
        }
        Ok(shares)
    }
}

impl FoldPrimitives for CudaDevice {
    fn weigh(&self, values: &Column, weights: &Buffer<u32>) -> Result<Column> {
        if let Some(weighed) = range_fold::weigh(&self.stream, values, weights)? {
            return Ok(weighed);
        }
        let weighed = self.fallback.weigh(
            &to_host::column_to_host(self, values)?,
            &to_host::host_words(self, weights)?,
        )?;
        to_host::column_from_host(self, &weighed)
    }

    fn sum(&self, values: &Column) -> Result<Column> {
        if let Some(sum) = range_fold::sum(&self.stream, values)? {
            return Ok(sum);
        }
        let sum = self.fallback.sum(&to_host::column_to_host(self, values)?)?;
        to_host::column_from_host(self, &sum)
    }

    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column> {
        if let Some(counts) = range_fold::weigh_count(&self.stream, values, weights)? {
            return Ok(counts);
        }
        let values = values
            .map(|values| to_host::column_to_host(self, values))
            .transpose()?;
        let counts = self
            .fallback
            .weigh_count(values.as_ref(), &to_host::host_words(self, weights)?)?;
        to_host::column_from_host(self, &counts)
    }

    fn fold_ranges(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column> {
        let stream = &self.stream;
        let folded = match fold {
            RangeFold::Count => range_fold::range_count(stream, values, matches, rows)?,
            RangeFold::Sum => range_fold::range_sum(stream, values, matches, rows)?,
            RangeFold::Min => range_extreme(self, values, matches, rows, false)?,
            RangeFold::Max => range_extreme(self, values, matches, rows, true)?,
        };
        match folded {
            Some(folded) => Ok(folded),
            None => fallback::fold_on_host(self, values, matches, |fallback, values, matches| {
                fallback.fold_ranges(fold, values, matches, rows)
            }),
        }
    }

    fn fold_tested(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column> {
        if let Some(folded) = tested_fold::fold_tested(self, fold, values, matches, rows)? {
            return Ok(folded);
        }
        let values = to_host::column_to_host(self, values)?;
        let folded = matches_on_host::tested_on_host(self, matches, |fallback, matches| {
            fallback.fold_tested(fold, &values, matches, rows)
        })?;
        to_host::column_from_host(self, &folded)
    }

    fn fold_covers(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column> {
        let folded = match fold {
            RangeFold::Count => cover_fold::cover_count(&self.stream, values, matches, rows)?,
            RangeFold::Sum => cover_fold::cover_sum(self, values, matches, rows)?,
            RangeFold::Min => cover_fold::cover_extreme(self, values, matches, rows, false)?,
            RangeFold::Max => cover_fold::cover_extreme(self, values, matches, rows, true)?,
        };
        match folded {
            Some(folded) => Ok(folded),
            None => fallback::fold_on_host(self, values, matches, |fallback, values, matches| {
                fallback.fold_covers(fold, values, matches, rows)
            }),
        }
    }
}

/// The least or greatest value of each range; `None` for types without a kernel.
fn range_extreme(
    device: &CudaDevice,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
    max: bool,
) -> Result<Option<Column>> {
    let Some(column) = values.on_cuda().filter(|_| values.rows() > 0) else {
        return Ok(None);
    };
    let keys = tested_fold::extreme_keys(device, values, column)?;
    let extremes = range_fold::range_extreme(&device.stream, column, &keys, matches, rows, max);
    extremes.map(Some)
}
