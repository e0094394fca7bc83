//! [`PresortedKeys`]: the key columns of a join whose sides may be presorted.

use crate::device::data::column::Column;

/// Key columns of both sides, of one type, that may be in ascending order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PresortedKeys<'a> {
    pub build: &'a Column,
    pub probe: &'a Column,
    /// Whether the same primitive found the build keys ascending before: it then reads only the build keys that a probe
    /// row may match.
    pub known: bool,
}
