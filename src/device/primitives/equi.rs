//! [`EquiPrimitives`].

use crate::device::data::column::Column;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::structures::EquiIndex;
use crate::error::Result;
use crate::ir::strategies::EquiStrategy;

/// Equi-joins (\[W\] section 3).
pub(crate) trait EquiPrimitives {
    /// Indexes the rows of `base` by equality of all columns. Rows with a NULL match nothing unless `null_equal`.
    /// Without `strategy` the device chooses one for these keys.
    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex>;

    /// The probe rows in the order that suits the strategy, and each one's range in the index. Rows that match nothing
    /// may be missing.
    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(OrderedRows, Ranges)>;
}
