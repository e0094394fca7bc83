//! [`SetPrimitives`].

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::results::{SetCounting, SetCounts, SetMatches};
use crate::device::data::structures::SetIndex;
use crate::error::Result;
use crate::ir::set_predicate::{SetTechnique, SetTest};

/// Set joins (\[B\]).
pub(crate) trait SetPrimitives {
    /// Indexes the lists of a column as sets of their elements, where a column that is no list holds sets of one element; rows whose
    /// list is NULL match nothing, nor do those that are NULL in any of `not_null`. Only rows of one group match one another where
    /// there are `groups` (ids, and how many). Without `technique` the device chooses one for the sets at hand, of which `probe` is
    /// a chunk of the other side's; one that cannot serve them is replaced by the nearest.
    fn set_index(
        &self,
        lists: &Column,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
        test: SetTest,
        technique: Option<SetTechnique>,
        probe: &Column,
    ) -> Result<SetIndex>;

    /// The matches of each row of the other side. `groups` are its ids, where the index has groups.
    fn set_search(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        not_null: &[&Keys],
    ) -> Result<SetMatches>;

    /// How many matches rows have, without lists of them.
    fn set_count(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        counting: SetCounting,
    ) -> Result<SetCounts>;

    /// How often each row id below `rows` stands in `list`.
    fn occurrences(&self, list: &Buffer<u32>, rows: usize) -> Result<Buffer<u32>>;
}
