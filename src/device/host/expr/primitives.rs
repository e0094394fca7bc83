//! [`ExprPrimitives`] of the CPU backend.

use crate::device::data::column::Column;
use crate::device::host::device::HostDevice;
use crate::device::host::expr::{row_program, shingles, string_predicate};
use crate::device::primitives::device::Device;
use crate::device::primitives::expr::ExprPrimitives;
use crate::device::primitives::rows::RowPrimitives;
use crate::error::Result;
use crate::ir::row_program::RowProgram;
use crate::ir::text_predicate::{TextSlice, TextTest};

impl ExprPrimitives for HostDevice {
    fn map(&self, rows: usize, program: &RowProgram, columns: &[&Column]) -> Result<Vec<Column>> {
        let check_cancelled = || self.check_cancelled();
        self.pool
            .install(|| row_program::map(&self.budget, rows, program, columns, &check_cancelled))
    }

    fn test_text(
        &self,
        column: &Column,
        other: Option<&Column>,
        test: &TextTest,
    ) -> Result<Column> {
        let check_cancelled = || self.check_cancelled();
        self.pool.install(|| {
            string_predicate::test_text(&self.budget, column, other, test, &check_cancelled)
        })
    }

    fn slice_text(&self, column: &Column, slice: TextSlice) -> Result<Column> {
        self.check_cancelled()?;
        string_predicate::slice_text(&self.budget, column, slice)
    }

    fn shingle_text(&self, column: &Column, length: u32) -> Result<Column> {
        self.check_cancelled()?;
        self.pool
            .install(|| shingles::shingle_text(&self.budget, column, length))
    }

    fn keep(&self, flags: &Column, columns: &[&Column]) -> Result<Option<(usize, Vec<Column>)>> {
        let rows = row_program::rows_where(&self.budget, flags)?;
        if rows.len() == flags.rows() {
            return Ok(None);
        }
        let kept = columns.iter().map(|column| self.gather(column, &rows));
        Ok(Some((rows.len(), kept.collect::<Result<_>>()?)))
    }
}
