//! [`PreparedColumn`]: a column in host memory in the form in which a device stores it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};

use crate::device::data::block_extents::BlockExtents;
use crate::device::data::encoding::ArrayValues;
use crate::error::Result;
use crate::ir::program::Kind;
use crate::store::shelf::Shelved;

/// A column in host memory in the form in which a device stores it: values, or codes with what they stand for. Nothing of it is on the
/// device.
#[derive(Debug)]
pub(crate) struct PreparedColumn {
    /// At least one.
    pub(crate) parts: Vec<ArrayRef>,
    pub(crate) codes: Option<Codes>,
}

/// What codes in host memory stand for.
#[derive(Debug, Clone)]
pub(crate) struct Codes {
    pub(crate) kind: Kind,
    /// All codes are below it.
    pub(crate) bound: u64,
    pub(crate) nullable: bool,
    pub(crate) values: ArrayValues,
    /// Of offsets, if there are several blocks.
    pub(crate) blocks: Option<Arc<BlockExtents>>,
}

impl PreparedColumn {
    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// The same column in one array that keeps no other memory alive.
    pub(crate) fn compact(&self) -> Result<Self> {
        // With two arrays rows and NULL bits are copied in any case.
        let nothing = self.parts[0].slice(0, 0);
        let parts = self.parts.iter().chain([&nothing]);
        let parts: Vec<&dyn Array> = parts.map(AsRef::as_ref).collect();
        let whole = concat(&parts)?;
        let whole: ArrayRef = match whole.data_type() {
            DataType::Utf8View => Arc::new(whole.as_string_view().gc()),
            DataType::BinaryView => Arc::new(whole.as_binary_view().gc()),
            _ => whole,
        };
        Ok(Self {
            parts: vec![whole],
            codes: self.codes.clone(),
        })
    }

    /// Bytes of its arrays, with a dictionary's values.
    pub(crate) fn bytes(&self) -> u64 {
        let parts = self.parts.iter();
        let parts: usize = parts.map(|part| part.get_array_memory_size()).sum();
        let values = match &self.codes {
            Some(Codes {
                values: ArrayValues::Dictionary(values),
                ..
            }) => values.get_array_memory_size(),
            _ => 0,
        };
        (parts + values) as u64
    }
}

/// A prepared column that stays in host memory between queries.
#[derive(Debug, Clone)]
pub(crate) struct HostColumn {
    pub(crate) prepared: Arc<PreparedColumn>,
    /// Of its bytes, in `pool`.
    pub(crate) reservation: Arc<MemoryReservation>,
    /// The memory pool of the session that put it there.
    pub(crate) pool: Arc<dyn MemoryPool>,
}

impl Shelved for HostColumn {
    fn bytes(&self) -> u64 {
        self.reservation.size() as u64
    }

    fn is_used(&self) -> bool {
        Arc::strong_count(&self.prepared) > 1
    }
}
