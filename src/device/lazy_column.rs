//! [`Payload`]: a column that goes to the output alone, whose upload may wait until enough of its rows come out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What one execution has learnt of a payload column, chunk after chunk.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    pays: AtomicBool,
    uploaded: AtomicU64,
}

impl Payload {
    /// Whether it paid to upload an earlier chunk: the next one is then sent with the columns that are needed at once.
    pub(crate) fn pays(&self) -> bool {
        self.pays.load(Ordering::Relaxed)
    }

    /// A chunk's column was uploaded after all.
    pub(crate) fn uploaded(&self, bytes: u64) {
        self.pays.store(true, Ordering::Relaxed);
        self.uploaded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes uploaded late since they were last asked for.
    pub(crate) fn take_uploaded(&self) -> u64 {
        self.uploaded.swap(0, Ordering::Relaxed)
    }
}

/// Whether and when a column is needed on the device.
#[derive(Debug, Clone, Default)]
pub(crate) enum Need {
    #[default]
    Never,
    Now,
    /// When its upload pays.
    Late(Arc<Payload>),
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
            Self::Late(payload) => payload.pays(),
        }
    }
}
