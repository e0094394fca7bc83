//! [`Pin`]: what a pinned column stays for.

use std::sync::Weak;

use datafusion::catalog::TableProvider;

/// What a pinned column stays for.
#[derive(Debug, Clone)]
pub(crate) enum Pin {
    /// A table that its catalog holds.
    Table(Weak<dyn TableProvider>),
    /// Until it is unpinned: its catalog makes the table anew for each query.
    Always,
}

impl Pin {
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Self::Table(table) => table.strong_count() > 0,
            Self::Always => true,
        }
    }

    /// Whether it is for the same table.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Table(a), Self::Table(b)) => a.ptr_eq(b),
            (Self::Always, Self::Always) => true,
            _ => false,
        }
    }
}
