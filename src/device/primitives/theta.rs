//! [`ThetaPrimitives`].

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Bound, Matches};
use crate::device::data::ranges::{OrderedRows, Pairs, Ranges};
use crate::device::data::structures::ZonedKeys;
use crate::error::Result;
use crate::ir::comparison::Comparison;

/// Theta joins: ranges of sorted keys, candidates that are tested, counts, and matches written piece by piece (\[T\]).
pub(crate) trait ThetaPrimitives {
    /// The values of the pairs `from .. from + len` of a product: pair `p` is of row `p / rows` of the input that is `repeated`, and of
    /// row `p % rows` of the other one, which has so many. `None` where they are to be gathered by row ids.
    fn cross_product(
        &self,
        _column: &Column,
        _repeated: bool,
        _rows: usize,
        _from: u64,
        _len: usize,
    ) -> Result<Option<Column>> {
        Ok(None)
    }

    /// Keys in the order of `build`, with the minimum and maximum of each block ("zone maps").
    fn zone_keys(&self, keys: &Keys, build: &OrderedRows) -> Result<ZonedKeys>;

    /// For each row of `probe` the sorted positions that lie in its group and satisfy all bounds. If `probe` is sorted
    /// by keys, these are the first bound's.
    fn range_bounds(
        &self,
        build: &OrderedRows,
        probe: &OrderedRows,
        bounds: &[Bound<'_>],
        groups: Option<&Buffer<u32>>,
    ) -> Result<Ranges>;

    /// How many candidates pass all tests, for each searching position; with `exists_only`, 1 or 0.
    /// `NeedsHost` where the program meets a candidate that it cannot decide.
    fn count_matches(&self, matches: Matches<'_>, exists_only: bool) -> Result<Buffer<u32>>;

    /// Exclusive prefix sums, one longer than `counts`; the last is the total.
    fn scan(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>>;

    /// The last of `offsets`.
    fn total(&self, offsets: &Buffer<u64>) -> Result<u64>;

    /// Where a piece that begins at pair `from` should end: at the end of a searching row's pairs, and after at most
    /// `target` pairs, or after at most `most` when one row alone has more than `target`.
    fn piece_end(&self, offsets: &Buffer<u64>, from: u64, target: u64, most: u64) -> Result<u64>;

    /// The pairs numbered `from .. from + len` in the order (searching position, sorted position).
    fn expand(
        &self,
        matches: Matches<'_>,
        offsets: &Buffer<u64>,
        from: u64,
        len: usize,
    ) -> Result<Pairs>;

    /// The counts of searching positions by row id, 0 for rows that `probe` leaves out.
    fn row_counts(
        &self,
        probe: &OrderedRows,
        counts: &Buffer<u32>,
        rows: usize,
    ) -> Result<Buffer<u32>>;

    /// How many ranges cover each of `rows` rows of the sorted side.
    fn cover(&self, build: &OrderedRows, ranges: &Ranges, rows: usize) -> Result<Buffer<u32>>;

    /// The share of `sample × sample` pairs, spread evenly over both sides, that satisfies `left OP right`; 0 to 1.
    fn sample_selectivity(
        &self,
        tests: &[(&Keys, Comparison, &Keys)],
        sample: usize,
    ) -> Result<Vec<f64>>;
}
