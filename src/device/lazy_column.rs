//! [`Payload`]: a column that is only gathered for the output, and whose upload may be deferred until enough of its
//! rows are gathered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Statistics of a payload column across the chunks of one execution.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    is_worthwhile: AtomicBool,
    uploaded: AtomicU64,
}

impl Payload {
    /// Whether an earlier chunk's column was uploaded in the end: the following ones are then uploaded with their
    /// chunks.
    pub(crate) fn is_worthwhile(&self) -> bool {
        self.is_worthwhile.load(Ordering::Relaxed)
    }

    /// Records that a chunk's column was uploaded in the end.
    pub(crate) fn uploaded(&self, bytes: u64) {
        self.is_worthwhile.store(true, Ordering::Relaxed);
        self.uploaded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes of deferred uploads since the previous call.
    pub(crate) fn take_uploaded(&self) -> u64 {
        self.uploaded.swap(0, Ordering::Relaxed)
    }
}

/// Whether and when a column is uploaded.
#[derive(Debug, Clone, Default)]
pub(crate) enum Need {
    #[default]
    Never,
    Now,
    /// Deferred until enough of its rows are gathered.
    Lazy(Arc<Payload>),
}

impl Need {
    pub(crate) fn is_any(&self) -> bool {
        !matches!(self, Self::Never)
    }

    /// Whether it is uploaded with its chunk.
    pub(crate) fn is_now(&self) -> bool {
        match self {
            Self::Never => false,
            Self::Now => true,
            Self::Lazy(payload) => payload.is_worthwhile(),
        }
    }
}
