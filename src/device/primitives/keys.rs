//! [`KeyPrimitives`].

use arrow::compute::SortOptions;

use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::ranges::OrderedRows;
use crate::device::data::structures::GroupDomain;
use crate::error::Result;

/// A key of ORDER BY.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortKey<'a> {
    pub(crate) column: &'a Column,
    pub(crate) options: SortOptions,
}

/// Order keys, group ids, and rows sorted by them.
pub(crate) trait KeyPrimitives {
    /// The order keys of `base`, and the domain in which other columns become comparable with them.
    fn order_keys(&self, base: &Column) -> Result<(Keys, KeyDomain)>;

    /// The order keys of `column`, comparable with keys of the domain's base column (but not with one another if the
    /// domain is ranked).
    fn order_keys_in(&self, domain: &KeyDomain, column: &Column) -> Result<Keys>;

    /// The same keys, NULL in all rows but those whose bit is set in `of_rows`.
    fn keys_among(&self, keys: Keys, of_rows: &Bits) -> Result<Keys>;

    /// Whether each row with a key in `low` has one in `high`, of the same domain, that is not less (if `strictly`, that is greater).
    fn are_ordered(&self, low: &Keys, high: &Keys, strictly: bool) -> Result<bool>;

    /// Group ids of the rows of `base` by equality of all columns: dense from 0, in any order; `NO_GROUP` for rows with
    /// a NULL unless `null_equal`.
    fn group_keys(&self, base: &[&Column], null_equal: bool) -> Result<(Buffer<u32>, GroupDomain)>;

    /// Group ids of other rows in a domain; `NO_GROUP` for a row that equals no base row.
    fn group_keys_in(&self, domain: &GroupDomain, columns: &[&Column]) -> Result<Buffer<u32>>;

    /// Sorts row ids by group (with the number of groups), then by key, then by row id. Rows without a group, with a
    /// NULL key or with a NULL in any of `not_null` are removed.
    fn sort(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<OrderedRows>;

    /// The same rows in an order in which ranges are found fast, one range each: as [`KeyPrimitives::sort`] returns them, or all rows in the
    /// order of their ids, which is that of time in many tables.
    fn search_order(
        &self,
        rows: usize,
        key: Option<&Keys>,
        groups: Option<(&Buffer<u32>, u32)>,
        not_null: &[&Keys],
    ) -> Result<OrderedRows>;

    /// Row ids in the order of `keys`, of which the first one counts most, then by row id; the first `limit` of them.
    /// Values compare as Arrow sorts them: floats in total order, where the zeros differ.
    fn sort_rows(
        &self,
        rows: usize,
        keys: &[SortKey<'_>],
        limit: Option<usize>,
    ) -> Result<Buffer<u32>>;
}
