//! [`ExprPrimitives`].

use crate::device::data::column::Column;
use crate::error::{BowtieError, Result};
use crate::ir::row_program::RowProgram;
use crate::ir::text_predicate::{TextSlice, TextTest};

/// Compiled expressions, string predicates and filters.
pub(crate) trait ExprPrimitives {
    /// Evaluates a program on `rows` rows of its `columns`, in the order in which it numbers them: a column for each output.
    /// `NeedsHost` where it meets a row that it cannot decide.
    fn map(&self, rows: usize, program: &RowProgram, columns: &[&Column]) -> Result<Vec<Column>>;

    /// A Boolean for each row of a column of text or binary values, or of a dictionary of these: what the test says of its value, NULL
    /// where it has none. `other` is the other column that the test reads.
    fn test_text(&self, column: &Column, other: Option<&Column>, test: &TextTest)
    -> Result<Column>;

    /// The same characters of each value of a column of text that is no dictionary.
    fn slice_text(&self, column: &Column, slice: TextSlice) -> Result<Column>;

    /// The rows for which a Boolean column is true, in order: how many they are, and of them these columns; `None` if all are.
    /// NULL is not.
    fn keep(&self, flags: &Column, columns: &[&Column]) -> Result<Option<(usize, Vec<Column>)>>;

    /// The rows for which the only output of a program is true, of the columns `kept`: what [`ExprPrimitives::map`] and [`ExprPrimitives::keep`] make.
    fn select(
        &self,
        rows: usize,
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
