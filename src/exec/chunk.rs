//! [`DeviceChunk`]: what flows between device nodes.

use datafusion::error::Result;
use futures::stream::BoxStream;

use crate::device::data::batch::DeviceBatch;
use crate::exec::join::long_ranges::LongRanges;
use crate::exec::transfer::staged_chunk::StagedChunk;

/// What flows between device nodes.
#[derive(Debug)]
pub(crate) enum DeviceChunk {
    /// Rows that wait on the host: the node that reads them uploads the columns that it needs, when it has room.
    Staged(StagedChunk),
    /// Rows on the device.
    Resident(DeviceBatch),
    /// Pairs of rows with long ranges of rows.
    LongRanges(Box<LongRanges>),
}

impl DeviceChunk {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Staged(chunk) => chunk.rows(),
            Self::Resident(batch) => batch.rows(),
            Self::LongRanges(runs) => runs.rows(),
        }
    }
}

pub(crate) type DeviceStream = BoxStream<'static, Result<DeviceChunk>>;
