//! [`FoldPrimitives`].

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::matches::Matches;
use crate::error::Result;

/// Aggregates over matches without materialising them (\[T\] section 4).
pub(crate) trait FoldPrimitives {
    /// `value × weight` for each row, wrapping as DataFusion's SUM does; NULL if the value is NULL or the weight is 0.
    fn weigh(&self, values: &Column, weights: &Buffer<u32>) -> Result<Column>;

    /// The sum of a column as a column of one row, wrapping as DataFusion's SUM does; NULL if all values are.
    fn sum(&self, values: &Column) -> Result<Column>;

    /// The weight of each row (Int64); 0 if its value in `values` is NULL.
    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column>;

    /// For each of `rows` probe rows, the sum of `values`, a build column, over its range; NULL if all values of the
    /// range are. Tests are not applied.
    fn range_sum(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column>;

    /// For each of `rows` probe rows, the number of rows of its range (Int64) that are not NULL in `values`.
    fn range_count(&self, values: &Column, matches: Matches<'_>, rows: usize) -> Result<Column>;

    /// For each of `rows` probe rows, the least (`max`: greatest) of `values` over its range; NULL if there is none.
    fn range_extreme(
        &self,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
        max: bool,
    ) -> Result<Column>;
}
