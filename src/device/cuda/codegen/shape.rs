//! [`Shape`]: what a kernel's text depends on.

use crate::ir::program::Kind;
use crate::ir::row_program::RowProgram;

/// What the text of a kernel depends on. Constants are parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub program: &'a RowProgram,
    /// For each column its kind, and whether it has NULLs.
    pub columns: &'a [(Kind, bool)],
}
