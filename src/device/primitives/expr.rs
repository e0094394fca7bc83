//! [`ExprPrimitives`].

use std::ops::Range;

use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};
use crate::ir::row_program::RowProgram;
use crate::ir::text_predicate::{TextSlice, TextTest};

/// Compiled expressions, string predicates and filters.
pub(crate) trait ExprPrimitives {
    /// Evaluates a program on `rows` rows of `columns`, which are in the program's numbering. Returns a column for each
    /// output, or `NeedsDataFusion` if DataFusion has to evaluate a row.
    fn map(&self, rows: usize, program: &RowProgram, columns: &[&Column]) -> Result<Vec<Column>>;

    /// Tests each value of a column of text or binary values, or of a dictionary of these. Returns a Boolean column,
    /// NULL for NULLs. `other`: the second column of a test of two.
    fn test_text(&self, column: &Column, other: Option<&Column>, test: &TextTest)
    -> Result<Column>;

    /// The same substring, by characters, of each value of a text column that is no dictionary.
    fn slice_text(&self, column: &Column, slice: TextSlice) -> Result<Column>;

    /// A list for each value of a text column that is no dictionary: its windows of `length` consecutive characters, in order. The value
    /// itself, if it has fewer; none, if it is empty. NULL for NULL.
    fn shingle_text(&self, column: &Column, length: u32) -> Result<Column>;

    /// The rows for which a Boolean column is TRUE, not NULL, in order: their number and these columns of them; `None`
    /// if all rows pass.
    fn keep(&self, flags: &Column, columns: &[&Column]) -> Result<Option<(usize, Vec<Column>)>>;

    /// The rows for which the only output of a program is TRUE, of the columns `kept`: [`ExprPrimitives::map`] and
    /// [`ExprPrimitives::keep`] in one step. It is TRUE for no row outside of `within`, a part of the rows that begins with a
    /// [block](crate::device::data::block_extents::BLOCK_ROWS).
    fn select(
        &self,
        rows: usize,
        _within: Range<usize>,
        program: &RowProgram,
        columns: &[&Column],
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        self.select_by_flags(rows, program, columns, kept)
    }

    /// As [`ExprPrimitives::select`], in two steps.
    fn select_by_flags(
        &self,
        rows: usize,
        program: &RowProgram,
        columns: &[&Column],
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        match self.map(rows, program, columns)?.as_slice() {
            [flags] => self.keep(flags, kept),
            _ => Err(BowtieError::Internal(
                "a predicate of several columns".into(),
            )),
        }
    }
}
