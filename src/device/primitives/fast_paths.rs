//! [`FastPaths`].

use std::ops::Range;

use crate::device::data::column::Column;
use crate::device::data::key_bitmap::KeyRange;
use crate::device::data::matches::FirstProbe;
use crate::device::data::results::{Joined, Kept, Paired};
use crate::device::data::structures::EquiBuild;
use crate::device::presorted::PresortedKeys;
use crate::error::Result;
use crate::ir::group_program::GroupProgram;
use crate::ir::strategies::{EquiStrategy, Materialization};

/// Primitives that a device has for some inputs only. Each answers `None` (a join: [`Paired`]) where the caller has to take the
/// general path, which every device has:
///
/// | fast path | serves | general path |
/// |---|---|---|
/// | `equi_build`, `equi_join` | inner equi-joins whose output is materialised in the probe pass | an index of the keys, and gathers of the matches |
/// | `only_build_repeats` | the choice of the side to index | the side that the plan says |
/// | `merge_join` | presorted sides with unique build keys | `equi_build` |
/// | `merge_keep` | semi and anti joins of presorted sides | a key bitmap, or an index of the keys |
/// | `likely_key_range` | a key range from a sample | `key_range`, a pass over all keys |
/// | `fold_groups` | a filter, expressions and an aggregation of few groups in one pass | `select`, `map`, `aggregate` |
/// | `cross_product` | output columns of a cross product by row numbers | row ids of the pairs, and gathers |
///
/// Which of them a join asks for, and in which order, is decided in `exec/join/fast_paths/` and `exec/join/pairs.rs`;
/// `device/key_bitmap.rs` asks for `likely_key_range`, `exec/aggregate/fused/` for `fold_groups`.
pub(crate) trait FastPaths {
    /// Prepares the build side of an inner join that materialises its output columns in the probe pass. `payload`: the
    /// output columns of this side. Any number of probe chunks may follow; `first` is the first of them, for the choice
    /// of a strategy. `None` if it is better to find matches by [`equi_index`](crate::device::primitives::equi::EquiPrimitives::equi_index) and to gather
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

    /// Whether samples show that rows of `build` share keys and that rows of `probe` do not, so that `probe` is the side to index.
    fn only_build_repeats(
        &self,
        _build: &[&Column],
        _probe: &[&Column],
        _null_equal: bool,
    ) -> Result<bool> {
        Ok(false)
    }

    /// The output rows of a join of two presorted sides with unique build keys. `None` if the keys turn out not to be
    /// sorted or unique, or if the device has no faster algorithm for such sides.
    fn merge_join(
        &self,
        _keys: PresortedKeys<'_>,
        _materialization: Option<Materialization>,
        _build_payload: &[&Column],
        _payload: &[&Column],
    ) -> Result<Option<Joined>> {
        Ok(None)
    }

    /// The probe rows with a match (`matched`), or without one, of the columns `kept`: as the result of
    /// [`keep`](crate::device::primitives::expr::ExprPrimitives::keep). `None` as for [`FastPaths::merge_join`], but build keys need not be unique.
    fn merge_keep(
        &self,
        _keys: PresortedKeys<'_>,
        _matched: bool,
        _kept: &[&Column],
    ) -> Result<Option<Kept>> {
        Ok(None)
    }

    /// The range of keys in a sample, extended at both ends; `None` if a pass over all keys is as fast.
    fn likely_key_range(&self, _columns: &[&Column]) -> Result<Option<KeyRange>> {
        Ok(None)
    }

    /// The words of all groups of a program over the rows `within` of `columns`, one group after the other; `within` begins with a
    /// [block](crate::device::data::block_extents::BLOCK_ROWS). Fails with `NeedsDataFusion` if DataFusion
    /// has to evaluate a row.
    fn fold_groups(
        &self,
        _within: Range<usize>,
        _program: &GroupProgram,
        _columns: &[&Column],
    ) -> Result<Option<Vec<u64>>> {
        Ok(None)
    }

    /// Values of the output rows `from .. from + len` of a cross product. Output row `p` combines row `p / rows` of the
    /// `repeated` input with row `p % rows` of the other, which has `rows` rows. `None` if the values have to be
    /// gathered by row ids.
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
}
