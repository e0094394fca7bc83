//! [`Values`]: columns of fixed width on a GPU; and the way of all columns across the border.
//!
//! | Arrow type | on the GPU |
//! |---|---|
//! | of fixed width: numbers, decimals, dates, times, intervals, fixed-size binary | its values as they are, and a bitmap when some are NULL |
//! | Boolean | two bitmaps |
//! | text and binary with offsets | offsets, bytes and a bitmap (`var_width.rs`) |
//! | dictionaries, views | keys or views as values of fixed width; what they refer to stays on the host (`indirect.rs`) |
//! | anything else (nested, run-ends) | stays on the host: row ids go there, not values here |

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use cudarc::driver::CudaEvent;

use crate::device::cuda::runtime::memory::Memory;
use crate::error::Result;

/// Values of one column.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) data_type: DataType,
    /// Values, or bits of a Boolean column.
    pub(crate) values: Memory,
    /// Bits of rows that are not NULL; `None` when all are not.
    pub(crate) valid: Option<Memory>,
    /// What it was uploaded from, in parts, for primitives that run on the host.
    pub(crate) original: Option<Vec<ArrayRef>>,
    /// Marked when the values were there; without it they are when all work of the queue is done.
    pub(crate) made: Option<CudaEvent>,
}

impl Values {
    pub(crate) fn bytes(&self) -> u64 {
        (self.values.bytes() + self.valid.as_ref().map_or(0, Memory::bytes)) as u64
    }
}

impl Values {
    /// Kernels launched from now on see what was sent.
    pub(crate) fn receive(&self) -> Result<()> {
        self.values.receive()?;
        self.valid.as_ref().map_or(Ok(()), Memory::receive)
    }
}

/// Rows that kernels count in 32 bits with room to spare; a longer chunk is halved.
pub(crate) const MOST_ROWS: usize = 1 << 30;
