//! [`Ascending`]: two sides of a join that may lie in the order of their keys.

use crate::device::data::column::Column;

/// The key columns of two sides that may ascend, of one type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ascending<'a> {
    pub build: &'a Column,
    pub probe: &'a Column,
    /// Whether the build keys were found to ascend before, by the same primitive: then only those that a probe row may have are read.
    pub known: bool,
}
