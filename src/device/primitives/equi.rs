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

    /// Prepares the build side of an inner join that materialises its output columns in the probe pass. `payload`: the
    /// output columns of this side. Any number of probe chunks may follow; `first` is the first of them, for the choice
    /// of a strategy. `None` if it is better to find matches by [`EquiPrimitives::equi_index`] and to gather
    /// afterwards.
    fn equi_build(
        &self,
        keys: &[&Column],
        null_equal: bool,
        strategy: Option<EquiStrategy>,
        payload: &[&Column],
        materialization: Option<Materialization>,
        first: Option<FirstProbe<'_>>,
    ) -> Result<Option<EquiBuild>>;

    /// All output rows of the build side with the rows of `keys` and `payload`. `build_payload`: the payload columns
    /// that the build was prepared with.
    fn equi_join(
        &self,
        build: &EquiBuild,
        build_payload: &[&Column],
        keys: &[&Column],
        payload: &[&Column],
    ) -> Result<Paired>;
}
