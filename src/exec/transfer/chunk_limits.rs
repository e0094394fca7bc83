//! [`ChunkLimits`]: how many rows and bytes a chunk may have, by who reads it.

use std::fmt;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};

use crate::device::primitives::device::Device;
use crate::ir::side::Side;

/// Who reads an upload's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A join, which gathers its left side whole.
    Left,
    /// A join, which takes its right side chunk by chunk.
    Right,
    /// An aggregation, which takes chunk by chunk; the fewer there are, the fewer partial states are merged.
    Grouped,
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
        })
    }
}

/// How large a chunk may grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkLimits {
    /// Of the first one; each that is uploaded has twice as many as the one before, up to `most_rows`. Those that are put together of
    /// pieces on the device do not grow.
    pub rows: usize,
    pub most_rows: usize,
    pub bytes: usize,
}

impl ChunkLimits {
    /// Bytes that a row's keys, ranges and offsets take on the device beside its columns, generously.
    pub(crate) const WORK_BYTES_PER_ROW: u64 = 128;
    /// Bytes of a chunk from which longer ones fill the bus no better: 32M rows of 8 bytes do by 99 %.
    pub(crate) const FULL_BUS_BYTES: usize = 1 << 28;
    /// Chunks of the streamed side that grow have room to be so many times as long.
    const STREAMED_AT_ONCE: u64 = 8;
    /// A streamed chunk takes at most one part of so many of DataFusion's memory pool.
    const SHARE_OF_POOL: u64 = 16;
    /// And one of the left side, of which all are there that were not spilled, and one that was.
    const LEFT_SHARE_OF_POOL: u64 = 8;
    /// Arrow's 32-bit offsets hold 2 GiB of characters.
    const MOST_BYTES_OF_TEXT: u64 = 1 << 30;
    /// And so many elements of lists, which may take less than a byte.
    pub(crate) const MOST_ELEMENTS: usize = i32::MAX as usize;

    /// Limits for chunks on `device` for who reads them. Each side of a join may use a
    /// share of the device's budget for its columns and one for its work. `chunk_rows` takes the place of the device's own wish
    /// for streamed chunks.
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
            (None, Role::Left) => (by_memory, by_memory),
            (None, Role::Right) => {
                let streamed = device.profile().streamed_rows.clone();
                // So long that there is room for the chunks after and before one as well.
                let most =
                    (by_memory / Self::STREAMED_AT_ONCE).clamp(*streamed.start(), *streamed.end());
                (*streamed.start(), most)
            }
            (None, Role::Grouped) => (device.profile().grouped_rows, device.profile().grouped_rows),
        };
        // A few streamed chunks are there at the same time, and others need the pool too.
        let by_pool = match (role, pool.memory_limit()) {
            (Role::Right | Role::Grouped, MemoryLimit::Finite(limit)) => {
                limit as u64 / Self::SHARE_OF_POOL
            }
            (Role::Left, MemoryLimit::Finite(limit)) => limit as u64 / Self::LEFT_SHARE_OF_POOL,
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
