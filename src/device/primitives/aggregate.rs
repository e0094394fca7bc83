//! [`AggregatePrimitives`].

use crate::device::data::column::Column;
use crate::device::data::results::Aggregated;
use crate::error::Result;
use crate::ir::fold::Fold;
use crate::ir::strategies::GroupStrategy;

/// Grouped aggregation (\[W\] section 3.2).
pub(crate) trait AggregatePrimitives {
    /// Groups of `rows` rows that are equal in all of `keys`, NULLs too, in any order; one group, also of no rows, without
    /// keys. And the folds over each group's rows, of values that are not NULL; a count of no column counts rows. By a strategy
    /// or the nearest one that the device has for these keys and folds; by the best if none is given.
    fn aggregate(
        &self,
        rows: usize,
        keys: &[&Column],
        folds: &[(Fold, Option<&Column>)],
        strategy: Option<GroupStrategy>,
    ) -> Result<Aggregated>;
}
