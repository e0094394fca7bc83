//! [`FoldPrimitives`].

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::matches::Matches;
use crate::error::Result;

/// Aggregates over matches without materialising them (\[T\] section 4).
pub(crate) trait FoldPrimitives {
    /// `value × weight` for each row, wrapping as DataFusion's SUM does; NULL where the value is or the weight is 0.
    fn weigh(&self, values: &Column, weights: &Buffer<u32>) -> Result<Column>;

    /// The sum of a column as a column of one row: wrapping as DataFusion's SUM does, NULL when every row is.
    fn sum(&self, values: &Column) -> Result<Column>;

    /// The weight of each row (Int64), 0 where `values` is NULL.
    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column>;

    /// For each of `rows` searching rows the sum of `values`, a column of the sorted side, over its range; NULL when
    /// there is none that is not NULL. Tests are not applied.
    fn range_sum(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column>;

    /// For each of `rows` searching rows how many rows of its range (Int64) are not NULL in `values`.
    fn range_count(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column>;

    /// For each of `rows` searching rows the least (`max`: greatest) of `values` over its range; NULL when there is none.
    fn range_extreme(
        &self,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
        max: bool,
    ) -> Result<Column>;
}
