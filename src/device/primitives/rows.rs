//! [`RowPrimitives`].

use std::ops::Range;

use arrow::datatypes::DataType;

use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::structures::Flags;
use crate::error::Result;

/// Movement of rows: gather, concatenation, compaction; and match flags.
pub(crate) trait RowPrimitives {
    /// Row `i` of the result is `column[rows[i]]`.
    fn gather(&self, column: &Column, rows: &Buffer<u32>) -> Result<Column>;

    /// Concatenates at least one part; all have one type.
    fn concat(&self, parts: &[&Column]) -> Result<Column>;

    /// A column of `rows` NULLs.
    fn nulls(&self, data_type: &DataType, rows: usize) -> Result<Column>;

    /// The entries of `rows` whose `keep` is TRUE, in order. A residual filter that the host evaluated gives `keep`.
    fn compact(&self, rows: &Buffer<u32>, keep: &arrow::array::BooleanArray)
    -> Result<Buffer<u32>>;

    /// The `len` numbers `from, from + 1, …`.
    fn sequence(&self, from: u32, len: usize) -> Result<Buffer<u32>>;

    /// The numbers of no rows.
    fn no_rows(&self) -> Result<Buffer<u32>>;

    /// The numbers of `rows` rows as a column of type `UInt32`.
    fn row_numbers(&self, rows: usize) -> Result<Column>;

    /// Some of the entries of `rows`.
    fn row_slice(&self, rows: &Buffer<u32>, some: Range<usize>) -> Result<Buffer<u32>>;

    /// A bit for each row, set where its value is not NULL; `None` if none is.
    fn validity(&self, column: &Column) -> Result<Option<Bits>>;

    /// `rows` flags, none set.
    fn flags(&self, rows: usize) -> Result<Flags>;

    /// Sets the flags of rows `first + rows[i]`. May be called from several threads.
    fn set_flags(&self, flags: &Flags, first: usize, rows: &Buffer<u32>) -> Result<()>;

    /// Sets the flag of each row `first + i` whose count is not zero.
    fn set_flags_counted(&self, flags: &Flags, first: usize, counts: &Buffer<u32>) -> Result<()>;

    /// The rows of `from .. from + len` whose flag is `set`, ascending, relative to `from`.
    fn flagged_rows(
        &self,
        flags: &Flags,
        from: usize,
        len: usize,
        set: bool,
    ) -> Result<Buffer<u32>>;

    /// Whether each of the flags `from .. from + len` is `set`, as a Boolean column.
    fn flag_column(&self, flags: &Flags, from: usize, len: usize, set: bool) -> Result<Column>;
}
