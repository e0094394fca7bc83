//! [`ThetaPrimitives`].

use crate::device::data::buffer::Buffer;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Bound, Matches};
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::device::data::results::Counted;
use crate::device::data::structures::ZonedKeys;
use crate::error::Result;
use crate::ir::comparison::Comparison;
use crate::ir::partners::PartnerLimit;

/// Theta joins: ranges of sorted keys, tests of candidates, counts, and output batches of matches (\[T\]).
pub(crate) trait ThetaPrimitives {
    /// Keys in the order of `build`, with the minimum and maximum of each block (zone maps).
    fn zone_keys(&self, keys: &Keys, build: &OrderedRows) -> Result<ZonedKeys>;

    /// For each row of `probe`, the build positions of its group that satisfy all bounds. If `probe` is sorted by keys,
    /// these are the first bound's.
    fn range_bounds(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        bounds: &[Bound<'_>],
        groups: Option<&Buffer<u32>>,
    ) -> Result<Ranges>;

    /// The part of each range that its probe row keeps. `centre`: the probe side's keys by row, of [`Which::Nearest`], in the domain of the
    /// build side's; a row without one keeps the first partners, or all with ties.
    ///
    /// [`Which::Nearest`]: crate::ir::partners::Which::Nearest
    fn limit_ranges(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        ranges: &Ranges,
        centre: Option<&Keys>,
        limit: PartnerLimit,
    ) -> Result<Ranges>;

    /// The number of candidates that pass all tests, for each probe position; with `exists_only`, 1 or 0. `NeedsDataFusion`
    /// if DataFusion has to evaluate a candidate.
    fn count_matches(&self, matches: Matches<'_>, exists_only: bool) -> Result<Counted>;

    /// Exclusive prefix sums, one more than `counts`; the last one is the total.
    fn scan(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>>;

    /// The last of `offsets`.
    fn total(&self, offsets: &Buffer<u64>) -> Result<u64>;

    /// The end of an output batch that begins at match `from`: the end of a probe row's matches, after at most `target`
    /// matches, or after at most `most` if a single row has more than `target`.
    fn piece_end(&self, offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64>;

    /// The matches numbered `from .. from + len` in the order (probe position, build position).
    fn expand(
        &self,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Pairs>;

    /// The counts of probe positions by row id; 0 for rows that are not in `probe`.
    fn row_counts(
        &self,
        probe: &OrderedRows,
        counts: &Buffer<u32>,
        rows: usize,
    ) -> Result<Buffer<u32>>;

    /// The number of ranges that cover each of `rows` build rows.
    fn cover(&self, build: &OrderedRows, ranges: &Ranges, rows: usize) -> Result<Buffer<u32>>;

    /// The fraction of `sample × sample` pairs, spread evenly over both sides, that satisfies `left OP right`; 0 to 1.
    fn sample_selectivity(
        &self,
        tests: &[(&Keys, Comparison, &Keys)],
        sample: usize,
    ) -> Result<Vec<f64>>;
}
