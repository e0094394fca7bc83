//! [`ThetaPrimitives`] and [`FoldPrimitives`] of an NVIDIA GPU: kernels where there are some for the type, otherwise
//! the host fallback, with transfers in both directions.

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::memory;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Bound, Matches};
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::device::data::structures::ZonedKeys;
use crate::device::primitives::device::Device;
use crate::device::primitives::folds::FoldPrimitives;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::error::Result;
use crate::ir::comparison::Comparison;
use crate::ir::fold::RangeFold;
use crate::ir::partners::PartnerLimit;

impl ThetaPrimitives for CudaDevice {
    fn zone_keys(&self, keys: &Keys, build: &OrderedRows) -> Result<ZonedKeys> {
        self.stream
            .zone_keys(keys, build)
            .map(|keys| ZonedKeys(Opaque::new(keys)))
    }

    fn range_bounds(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        bounds: &[Bound<'_>],
        groups: Option<&Buffer<u32>>,
    ) -> Result<Ranges> {
        self.stream.range_bounds(build, probe, bounds, groups)
    }

    fn limit_ranges(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        ranges: &Ranges,
        centre: Option<&Keys>,
        limit: PartnerLimit,
    ) -> Result<Ranges> {
        self.stream
            .limit_ranges(build, probe, ranges, centre, limit)
    }

    fn count_matches(&self, matches: Matches<'_>, exists_only: bool) -> Result<Buffer<u32>> {
        self.check_cancelled()?;
        let check_cancelled = || self.check_cancelled();
        if let Some(program) = &matches.program {
            let counted =
                self.stream
                    .program_count(matches, program, exists_only, &check_cancelled)?;
            return match counted {
                Some(counts) => Ok(counts),
                None => self.count_on_host(matches, exists_only),
            };
        }
        if matches.tests.is_empty() {
            return self.stream.range_counts(matches.ranges, exists_only);
        }
        self.count_cheapest(matches, exists_only, &check_cancelled)
    }

    fn scan(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
        self.stream.scan_offsets(counts)
    }

    fn total(&self, offsets: &Buffer<u64>) -> Result<u64> {
        match offsets.len() {
            0 => Ok(0),
            len => self.stream.read_word(memory(offsets)?, len - 1),
        }
    }

    fn piece_end(&self, offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64> {
        self.stream.piece_end(offsets, from, target, most)
    }

    fn expand(
        &self,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Pairs> {
        if let Some(program) = &matches.program {
            let pairs =
                self.stream
                    .program_expand(matches, program, offsets, from, len, &|| {
                        self.check_cancelled()
                    })?;
            return match pairs {
                Some(pairs) => Ok(pairs),
                None => self.expand_on_host(matches, offsets, from, len),
            };
        }
        match matches.tests.is_empty() {
            true => self.stream.expand_ranges(
                matches.build,
                matches.probe,
                matches.ranges,
                offsets,
                from,
                len,
            ),
            false => match self
                .stream
                .zones_expand(matches, offsets, from, len, &|| self.check_cancelled())?
            {
                Some(pairs) => Ok(pairs),
                None => self.expand_on_host(matches, offsets, from, len),
            },
        }
    }

    fn row_counts(
        &self,
        probe: &OrderedRows,
        counts: &Buffer<u32>,
        rows: usize,
    ) -> Result<Buffer<u32>> {
        self.stream.scatter(&probe.rows, counts, rows)
    }

    fn cover(&self, build: &OrderedRows, ranges: &Ranges, rows: usize) -> Result<Buffer<u32>> {
        self.stream.cover(build, ranges, rows)
    }

    fn sample_selectivity(
        &self,
        tests: &[(&Keys, Comparison, &Keys)],
        sample: usize,
    ) -> Result<Vec<f64>> {
        let mut shares = Vec::with_capacity(tests.len());
        for (left, op, right) in tests {
            let (left, right) = (self.sample(left, sample)?, self.sample(right, sample)?);
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
        if let Some(weighed) = self.stream.weigh(values, weights)? {
            return Ok(weighed);
        }
        let weighed = self
            .fallback
            .weigh(&self.column_to_host(values)?, &self.host_words(weights)?)?;
        self.column_from_host(&weighed)
    }

    fn sum(&self, values: &Column) -> Result<Column> {
        if let Some(sum) = self.stream.sum(values)? {
            return Ok(sum);
        }
        let sum = self.fallback.sum(&self.column_to_host(values)?)?;
        self.column_from_host(&sum)
    }

    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column> {
        if let Some(counts) = self.stream.weigh_count(values, weights)? {
            return Ok(counts);
        }
        let values = values
            .map(|values| self.column_to_host(values))
            .transpose()?;
        let counts = self
            .fallback
            .weigh_count(values.as_ref(), &self.host_words(weights)?)?;
        self.column_from_host(&counts)
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
            RangeFold::Count => stream.range_count(values, matches, rows)?,
            RangeFold::Sum => stream.range_sum(values, matches, rows)?,
            RangeFold::Min => self.range_extreme(values, matches, rows, false)?,
            RangeFold::Max => self.range_extreme(values, matches, rows, true)?,
        };
        match folded {
            Some(folded) => Ok(folded),
            None => self.fold_on_host(values, matches, |fallback, values, matches| {
                fallback.fold_ranges(fold, values, matches, rows)
            }),
        }
    }

    /// By the host: there is no kernel yet.
    fn fold_tested(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column> {
        let values = self.column_to_host(values)?;
        let folded = self.tested_on_host(matches, |fallback, matches| {
            fallback.fold_tested(fold, &values, matches, rows)
        })?;
        self.column_from_host(&folded)
    }

    /// Extremes and sums of floats by the host: there is no kernel yet.
    fn fold_covers(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column> {
        let folded = match fold {
            RangeFold::Count => self.stream.cover_count(values, matches, rows)?,
            RangeFold::Sum => self.stream.cover_sum(values, matches, rows)?,
            RangeFold::Min | RangeFold::Max => None,
        };
        match folded {
            Some(folded) => Ok(folded),
            None => self.fold_on_host(values, matches, |fallback, values, matches| {
                fallback.fold_covers(fold, values, matches, rows)
            }),
        }
    }
}

impl CudaDevice {
    /// The least or greatest value of each range; `None` for types without a kernel.
    fn range_extreme(
        &self,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
        max: bool,
    ) -> Result<Option<Column>> {
        let Some(column) = values.on_cuda().filter(|_| values.rows() > 0) else {
            return Ok(None);
        };
        let keys = match self.stream.total_keys(column, values.rows())? {
            Some(floats) => floats,
            None => self.order_keys(values)?.0,
        };
        let extremes = self.stream.range_extreme(column, &keys, matches, rows, max);
        extremes.map(Some)
    }
}
