//! [`RowPrimitives`].

use arrow::datatypes::DataType;

use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::structures::Flags;
use crate::error::Result;

/// Moving rows: gather, concatenation, compaction, flags of rows.
pub(crate) trait RowPrimitives {
    /// `column[rows[i]]` at place `i`.
    fn gather(&self, column: &Column, rows: &Buffer<u32>) -> Result<Column>;

    /// The rows of all `parts` together, one after the other: at least one part, and all of one type.
    fn concat(&self, parts: &[&Column]) -> Result<Column>;

    /// `column[0 .. rows]` set to NULL.
    fn nulls(&self, data_type: &DataType, rows: usize) -> Result<Column>;

    /// The entries of `rows` whose `keep` is set, in order. `keep` comes from a residual evaluated on the host.
    fn compact(&self, rows: &Buffer<u32>, keep: &arrow::array::BooleanArray)
    -> Result<Buffer<u32>>;

    /// `from, from + 1, …`, `len` of them.
    fn sequence(&self, from: u32, len: usize) -> Result<Buffer<u32>>;

    /// `rows` flags, none set.
    fn flags(&self, rows: usize) -> Result<Flags>;

    /// Sets the flags of rows `first + rows[i]`. May be called from several threads.
    fn set_flags(&self, flags: &Flags, first: usize, rows: &Buffer<u32>) -> Result<()>;

    /// Sets the flag of every row `first + i` whose count is not zero.
    fn set_flags_counted(&self, flags: &Flags, first: usize, counts: &Buffer<u32>) -> Result<()>;

    /// Those of rows `from .. from + len` whose flag is `set`, ascending, counted from `from`.
    fn flagged_rows(
        &self,
        flags: &Flags,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Buffer<u32>>;

    /// Whether each of flags `from .. from + len` is `set`, as a Boolean column.
    fn flag_column(&self, flags: &Flags, from: usize, len: usize, set: bool) -> Result<Column>;
}
