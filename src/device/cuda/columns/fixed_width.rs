//! [`Values`]: a column of fixed width on a GPU; and how each Arrow type is stored there.
//!
//! | Arrow type | on the GPU |
//! |---|---|
//! | fixed width: numbers, decimals, dates, times, intervals, fixed-size binary | its values unchanged, and a bitmap when some are NULL |
//! | Boolean | two bitmaps |
//! | text and binary with offsets | offsets, bytes and a bitmap (`var_width.rs`) |
//! | dictionaries, views | keys or views as values of fixed width; the values and bytes they refer to are on the host (`indirect.rs`) |
//! | anything else (nested, run-end encoded) | on the host: row ids are downloaded, and the host gathers |

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::device::cuda::runtime::event::Event;
use crate::device::cuda::runtime::memory::Memory;
use crate::error::Result;

/// The values of one column in device memory.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) data_type: DataType,
    /// Values, or a bitmap for a Boolean column.
    pub(crate) values: Memory,
    /// A bitmap of the rows that are not NULL; `None` when no row is NULL.
    pub(crate) valid: Option<Memory>,
    /// The host arrays that the column was uploaded from, for primitives that run on the host.
    pub(crate) original: Option<Vec<ArrayRef>>,
    /// Recorded when kernels had written the values. Without an event, wait for all work of the stream.
    pub(crate) made: Option<Event>,
}

impl Values {
    pub(crate) fn bytes(&self) -> u64 {
        (self.values.bytes() + self.valid.as_ref().map_or(0, Memory::bytes)) as u64
    }
}

impl Values {
    /// Makes kernels that are launched from now on wait for the upload.
    pub(crate) fn receive(&self) -> Result<()> {
        self.values.receive()?;
        self.valid.as_ref().map_or(Ok(()), Memory::receive)
    }
}

/// The most rows of a chunk, far below the 32 bits of the kernels' row counts; a longer chunk is halved.
pub(crate) const MOST_ROWS: usize = 1 << 30;
