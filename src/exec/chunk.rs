//! [`DeviceChunk`]: the unit that device nodes exchange, between an upload and a download. `chunk/` has its forms on the host, the limits of
//! its size, and the sizes of its arrays.

use datafusion::error::Result;
use futures::stream::BoxStream;

use crate::device::batches::batch::DeviceBatch;
use crate::exec::chunk::long_ranges::LongRanges;
use crate::exec::chunk::staged_chunk::StagedChunk;

pub(crate) mod chunk_limits;
pub(crate) mod long_ranges;
pub(crate) mod sizes;
pub(crate) mod staged_chunk;

/// A chunk of rows in one of the forms that device nodes exchange, or a signal. A node that keeps a chunk does so as an
/// [`InputChunk`](crate::exec::input::chunk::InputChunk).
#[derive(Debug)]
pub(crate) enum DeviceChunk {
    /// Rows on the host. The reader uploads the columns that it needs, when device memory allows.
    Staged(StagedChunk),
    /// Columns on the device.
    Resident(DeviceBatch),
    /// The matches of a high-fan-out tile, as slices of columns on the host. Only a download reads them.
    LongRanges(Box<LongRanges>),
    /// No rows: the memory pool refused the next ones. The reader frees host memory, for example by spilling what it
    /// has gathered, before it reads on.
    MemoryPressure,
}

impl DeviceChunk {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Staged(chunk) => chunk.rows(),
            Self::Resident(batch) => batch.rows(),
            Self::LongRanges(ranges) => ranges.rows(),
            Self::MemoryPressure => 0,
        }
    }
}

/// The chunks of a device node, all used in the order of one stream of the device.
pub(crate) type DeviceStream = BoxStream<'static, Result<DeviceChunk>>;
