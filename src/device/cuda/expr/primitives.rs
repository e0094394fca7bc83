//! [`ExprPrimitives`] of an NVIDIA GPU.

use std::ops::Range;

use crate::device::cuda::codegen::launch;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::expr::filter;
use crate::device::cuda::expr::row_program;
use crate::device::cuda::expr::shingles;
use crate::device::cuda::expr::string_predicate;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::device::primitives::expr::ExprPrimitives;
use crate::error::Result;
use crate::ir::row_program::RowProgram;
use crate::ir::text_predicate::{TextSlice, TextTest};

impl ExprPrimitives for CudaDevice {
    fn map(&self, rows: usize, program: &RowProgram, columns: &[&Column]) -> Result<Vec<Column>> {
        self.check_cancelled()?;
        row_program::map_rows(self, rows, program, columns)
    }

    fn test_text(
        &self,
        column: &Column,
        other: Option<&Column>,
        test: &TextTest,
    ) -> Result<Column> {
        self.check_cancelled()?;
        string_predicate::tested(self, column, other, test)
    }

    fn slice_text(&self, column: &Column, slice: TextSlice) -> Result<Column> {
        self.check_cancelled()?;
        string_predicate::sliced(self, column, slice)
    }

    fn shingle_text(&self, column: &Column, length: u32) -> Result<Column> {
        self.check_cancelled()?;
        shingles::shingled(self, column, length)
    }

    fn keep(&self, flags: &Column, columns: &[&Column]) -> Result<Option<(usize, Vec<Column>)>> {
        filter::kept(self, flags, columns)
    }

    fn select(
        &self,
        rows: usize,
        within: Range<usize>,
        program: &RowProgram,
        columns: &[&Column],
        kept: &[&Column],
    ) -> Result<Option<(usize, Vec<Column>)>> {
        self.check_cancelled()?;
        match launch::select_generated(self, rows, within, program, columns, kept)? {
            Some(selected) => Ok(selected),
            None => self.select_by_flags(rows, program, columns, kept),
        }
    }
}
