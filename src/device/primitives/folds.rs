//! [`FoldPrimitives`].

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::matches::Matches;
use crate::error::Result;
use crate::ir::fold::RangeFold;

/// Aggregates over matches without materialising them (\[T\] section 4).
pub(crate) trait FoldPrimitives {
    /// `value × weight` for each row, wrapping as DataFusion's SUM does; NULL if the value is NULL or the weight is 0.
    fn weigh(&self, values: &Column, weights: &Buffer<u32>) -> Result<Column>;

    /// The sum of a column as a column of one row, wrapping as DataFusion's SUM does; NULL if all values are.
    fn sum(&self, values: &Column) -> Result<Column>;

    /// The weight of each row (Int64); 0 if its value in `values` is NULL.
    fn weigh_count(&self, values: Option<&Column>, weights: &Buffer<u32>) -> Result<Column>;

    /// For each of `rows` probe rows, a fold of `values`, a build column, over its range. Tests are not applied.
    fn fold_ranges(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column>;

    /// As [`FoldPrimitives::fold_ranges`], over the rows that match under all tests, and the program if there is one.
    fn fold_tested(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column>;

    /// For each of `rows` build rows, a fold of `values`, a probe column, over the probe rows in whose range it is. Tests are not applied.
    fn fold_covers(
        &self,
        fold: RangeFold,
        values: &Column,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Column>;
}
