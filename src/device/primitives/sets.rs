//! [`SetPrimitives`].

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::{SetCounting, SetCounts, SetMatches};
use crate::device::data::structures::{ProbeSets, SetIndex};
use crate::error::Result;
use crate::ir::set_predicate::{SetTechnique, SetTest, SetValue};

/// Set joins (\[B\]).
pub(crate) trait SetPrimitives {
    /// Indexes the lists of a column as sets of their elements; other values are sets of one element. Rows with a NULL
    /// list, or with a NULL in any of `not_null`, match nothing. With `groups` (ids, and their number) only rows of the
    /// same group match. Rows with equal sets are indexed once, if there are many. Without `technique` the device
    /// chooses one for these sets and for `probe`, a chunk of the other side; a technique that does not support them is
    /// replaced by the nearest.
    fn set_index(
        &self,
        lists: &Column,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
        test: SetTest,
        technique: Option<SetTechnique>,
        probe: &Column,
    ) -> Result<SetIndex>;

    /// The matches of each probe row. Rows with equal sets are searched once and share a list, if there are many.
    /// `groups`: its group ids, if the index has groups.
    fn set_search(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        not_null: &[&Keys],
    ) -> Result<SetMatches>;

    /// The number of matches of rows, without lists.
    fn set_count(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
        counting: SetCounting,
    ) -> Result<SetCounts>;

    /// The sets of the probe side's lists, for [`SetPrimitives::set_values`]. `groups`: its group ids, if the index has groups.
    fn probe_sets(
        &self,
        index: &SetIndex,
        lists: &Column,
        groups: Option<&Buffer<u32>>,
    ) -> Result<ProbeSets>;

    /// The value of each pair of an indexed row and a probe row: Int64 of an overlap, Float64 of a degree. NULL where one has no set.
    fn set_values(
        &self,
        index: &SetIndex,
        probe: &ProbeSets,
        pairs: (&Buffer<u32>, &Buffer<u32>),
        value: SetValue,
    ) -> Result<Column>;

    /// The number of matches of each row id below `rows`: how often it occurs in the lists of all probe rows. `matches`
    /// and `ranges` are those of [`SetMatches`].
    fn occurrences(
        &self,
        matches: &OrderedRows,
        ranges: &Ranges,
        rows: usize,
    ) -> Result<Buffer<u32>>;
}
