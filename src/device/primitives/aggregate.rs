//! [`AggregatePrimitives`].

use crate::device::data::column::Column;
use crate::device::data::results::Aggregated;
use crate::error::Result;
use crate::ir::fold::Fold;
use crate::ir::strategies::Grouping;

/// Grouped aggregation (\[W\] 3.2 and 4.2 to 4.4).
pub(crate) trait AggregatePrimitives {
    /// Groups `rows` rows by `keys`, where NULLs are equal, and folds the values of each group that are not NULL; a
    /// count without a column counts rows. Without keys there is one group, even of no rows. Groups may be in any
    /// order. `wanted`: the strategy and the materialisation to use, or the nearest that the device has for these keys
    /// and folds.
    fn aggregate(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
        wanted: Grouping,
    ) -> Result<Aggregated>;
}
