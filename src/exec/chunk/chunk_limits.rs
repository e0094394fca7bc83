//! [`ChunkLimits`]: the most rows and bytes of a chunk, by the role of its reader.

use std::fmt;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};

use crate::device::primitives::device::Device;
use crate::ir::side::Side;

/// The role of the reader of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A join that gathers its left side.
    Left,
    /// A join that streams its right side.
    Right,
    /// An aggregation that streams its input. Fewer chunks mean fewer partial states to merge.
    Grouped,
    /// A sort that gathers its input, or clusters that gather pairs.
    Sorted,
    /// The host, which reads the rows of a filter or a projection piece by piece.
    Downloaded,
}

impl Role {
    /// Whether the reader takes one chunk after the other. Others gather all chunks, and spill those on the host themselves.
    pub(crate) fn is_streamed(self) -> bool {
        match self {
            Self::Left | Self::Sorted => false,
            Self::Right | Self::Grouped | Self::Downloaded => true,
        }
    }
}

impl From<Side> for Role {
    fn from(side: Side) -> Self {
        match side {
            Side::Left => Self::Left,
            Side::Right => Self::Right,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Grouped => "grouped",
            Self::Sorted => "sorted",
            Self::Downloaded => "downloaded",
        })
    }
}

/// The most rows and bytes of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkLimits {
    /// The rows of the first chunk. Each staged chunk has twice as many as the one before, up to `most_rows`. Chunks of
    /// coalesced pieces do not grow.
    pub rows: usize,
    pub most_rows: usize,
    pub bytes: usize,
}

impl ChunkLimits {
    /// Bytes of device memory that the keys, ranges and offsets of a row take beside its columns, generously estimated.
    pub(crate) const WORK_BYTES_PER_ROW: u64 = 128;
    /// Bytes of a chunk from which a longer one uses the bus no better: 32M rows of 8 bytes reach 99 % of its rate.
    pub(crate) const FULL_BUS_BYTES: usize = 1 << 28;
    /// The budget could hold this number of streamed chunks of full length.
    const STREAMED_AT_ONCE: u64 = 8;
    /// A streamed chunk takes at most one `SHARE_OF_POOL`-th of DataFusion's memory pool.
    const SHARE_OF_POOL: u64 = 16;
    /// A left chunk takes at most one `LEFT_SHARE_OF_POOL`-th. All left chunks that were not spilled, and one that was,
    /// are in memory at the same time.
    const LEFT_SHARE_OF_POOL: u64 = 8;
    /// The most bytes of a chunk with text: half of what Arrow's 32-bit offsets address.
    const MOST_BYTES_OF_TEXT: u64 = 1 << 30;
    /// The most elements of a list column, by the same offsets. Elements may take less than a byte each.
    pub(crate) const MOST_ELEMENTS: usize = i32::MAX as usize;

    /// The limits of chunks on `device` for a reader in this role. Each side of a join may use a share of the device's
    /// budget for its columns, and one for its work. `chunk_rows` overrides the number of rows.
    pub(crate) fn new(
        device: &dyn Device,
        schema: &SchemaRef,
        chunk_rows: Option<usize>,
        role: Role,
        pool: &dyn MemoryPool,
    ) -> Self {
        let device_memory = device.budget().limit();
        let by_memory = device_memory / 4 / Self::WORK_BYTES_PER_ROW;
        let (first, most) = match (chunk_rows, role) {
            (Some(rows), _) => (rows as u64, rows as u64),
            (None, Role::Left | Role::Sorted) => (by_memory, by_memory),
            (None, Role::Right | Role::Downloaded) => {
                let streamed = device.profile().streamed_rows.clone();
                // The chunks before and after a streamed one fit as well.
                let most =
                    (by_memory / Self::STREAMED_AT_ONCE).clamp(*streamed.start(), *streamed.end());
                (*streamed.start(), most)
            }
            (None, Role::Grouped) => (device.profile().grouped_rows, device.profile().grouped_rows),
        };
        // Some streamed chunks are in memory at the same time, and other nodes need the pool too.
        let by_pool = match (role, pool.memory_limit()) {
            (Role::Right | Role::Grouped | Role::Downloaded, MemoryLimit::Finite(limit)) => {
                limit as u64 / Self::SHARE_OF_POOL
            }
            (Role::Left | Role::Sorted, MemoryLimit::Finite(limit)) => {
                limit as u64 / Self::LEFT_SHARE_OF_POOL
            }
            _ => u64::MAX,
        };
        let rows = |wished: u64| {
            (by_memory.min(wished) as usize).clamp(1, crate::ir::limits::MAX_CHUNK_ROWS)
        };
        Self {
            rows: rows(first),
            most_rows: rows(most),
            bytes: by_pool.min(match schema.fields().iter().all(is_of_fixed_width) {
                true => device_memory / 8,
                false => (device_memory / 8).min(Self::MOST_BYTES_OF_TEXT),
            }) as usize,
        }
    }
}

fn is_of_fixed_width(field: &FieldRef) -> bool {
    let data_type = field.data_type();
    data_type.primitive_width().is_some() || *data_type == DataType::Boolean
}
