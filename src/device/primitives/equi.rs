//! [`EquiPrimitives`].

use crate::device::data::column::Column;
use crate::device::data::matches::FirstProbe;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::Paired;
use crate::device::data::structures::{EquiBuild, EquiIndex};
use crate::error::Result;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// Equi-joins (\[W\] section 3).
pub(crate) trait EquiPrimitives {
    /// Indexes the rows of `base` by equality of all columns; rows with a NULL match nothing unless `null_equal`. Without
    /// `strategy` the device chooses one for the keys at hand.
    fn equi_index(
        &self,
        base: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
    ) -> Result<EquiIndex>;

    /// The other side's rows in the order that suits the strategy, and the range in the index of each. Rows that match nothing
    /// may be left out.
    fn equi_search(&self, index: &EquiIndex, columns: &[&Column]) -> Result<(OrderedRows, Ranges)>;

    /// Prepares one side of an inner join whose pairs are put together at once, for payload columns of that side and as many
    /// probes as come, of which a choice may look at the first; `None` where pairs had better be found by [`EquiPrimitives::equi_index`] first.
    fn equi_build(
        &self,
        keys: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
        payload: &[&Column],
        materialization: Option<Materialization>,
        first: Option<FirstProbe<'_>>,
    ) -> Result<Option<EquiBuild>>;

    /// All pairs of the rows of `build` with those of `keys` and `payload`. `build_payload` is what the build was prepared for.
    fn equi_join(
        &self,
        build: &EquiBuild,
        build_payload: &[&Column],
        keys: &[&Column],
        payload: &[&Column],
    ) -> Result<Paired>;
}
