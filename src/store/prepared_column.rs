//! [`PreparedColumn`]: a column in host memory in the form in which a device stores it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::device::data::block_extents::BlockExtents;
use crate::device::data::column::Column;
use crate::device::data::encoding::Encoding;
use crate::error::Result;
use crate::store::kept_column::KeptColumn;
use crate::store::shelf::Shelved;

/// A column in host memory in the form in which a device stores it: values, or codes with their encoding.
#[derive(Debug)]
pub(crate) struct PreparedColumn {
    /// At least one.
    pub(crate) parts: Vec<ArrayRef>,
    pub(crate) encoding: Option<Encoding>,
    /// Of codes.
    pub(crate) blocks: Option<Arc<BlockExtents>>,
}

impl PreparedColumn {
    /// The column that its parts were uploaded as.
    pub(crate) fn uploaded(&self, column: Column) -> KeptColumn {
        KeptColumn {
            column: Arc::new(column),
            encoding: self.encoding.clone(),
            blocks: self.blocks.clone(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// The same column in arrays that keep no other memory alive.
    pub(crate) fn compact(&self) -> Result<Self> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(AsRef::as_ref).collect();
        let whole = match parts.as_slice() {
            // Codes are in arrays of their own.
            [_] if self.encoding.is_some() => Arc::clone(&self.parts[0]),
            parts => concat(parts)?,
        };
        let whole: ArrayRef = match whole.data_type() {
            DataType::Utf8View => Arc::new(whole.as_string_view().gc()),
            DataType::BinaryView => Arc::new(whole.as_binary_view().gc()),
            _ => whole,
        };
        Ok(Self {
            parts: vec![whole],
            encoding: self.encoding.clone(),
            blocks: self.blocks.clone(),
        })
    }

    /// Bytes of its arrays.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.parts.iter().map(|part| part.get_array_memory_size());
        bytes.sum::<usize>() as u64
    }
}

/// A prepared column that stays in host memory between queries.
#[derive(Debug, Clone)]
pub(crate) struct HostColumn {
    pub(crate) prepared: Arc<PreparedColumn>,
    /// Of its bytes, in the memory pool of the session that put it there.
    pub(crate) reservation: Arc<MemoryReservation>,
}

impl Shelved for HostColumn {
    fn bytes(&self) -> u64 {
        self.reservation.size() as u64
    }

    fn is_used(&self) -> bool {
        Arc::strong_count(&self.prepared) > 1
    }
}
