//! A Grace hash join (Kitsuregawa et al. 1983). If the left side exceeds the device, both sides are hash-partitioned,
//! and the join matrix has only tiles of the same partition.
//!
//! ```text
//!                     partition 0  partition 1  partition 2
//! left partition 0    [  tiles  ]
//! left partition 1                 [  tiles  ]
//! left partition 2                              [  tiles  ]
//! ```
//!
//! The right side is partitioned in rounds. In a round each left partition is uploaded once, and each right row once. A
//! round ends with the right side, when it is so much longer than the left side that uploading that one again is cheap,
//! or when the memory pool is full.
//!
//! Without partitions each right chunk is joined with every left chunk. A partition longer than a chunk, such as that
//! of a frequent key, is walked tile by tile as well. The hashes are those of DataFusion's own join, which calls no
//! rows equal whose hashes differ.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use futures::{StreamExt, TryStreamExt, stream};

use crate::device::primitives::device::Device;
use crate::exec::blocking::blocking_task;
use crate::exec::chunk::chunk_limits::{ChunkLimits, Role};
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::input::gathered::Gathered;
use crate::exec::join::fast_paths::semi_bitmap::BitmapSemiJoin;
use crate::exec::join::narrow_keys;
use crate::exec::memory::on_request::await_or_evict;
use crate::exec::memory::spill::Spilling;
use crate::exec::metrics::DeviceMetrics;
use crate::exec::partition::keys::Keys;
use crate::exec::partition::limits::Limits;
use crate::exec::partition::partitioner::{
    LEAST_CHUNKS, Partitioner, TARGET_QUARTERS, can_partition,
};
use crate::exec::partition::peek::Peek;
use crate::ir::side::Side;
use crate::options::BowtieOptions;
use crate::spec::join::JoinSpec;

/// Rows of a round of the right side for each left row, unless the join has a limit.
pub(crate) const ROUND: usize = 4;

/// Left chunks on the device that are joined tile by tile, at most, and their share of its memory.
const MOST_CHUNKS_ON_DEVICE: usize = 8;
const SHARE_ON_DEVICE: u64 = 4;
/// A chunk of this part of the device's memory is as long as that allows.
const CHUNKS_OF_MEMORY: u64 = 8;

/// How a join is done whose left side exceeds the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Oversized {
    /// By a key bitmap, which serves all left chunks.
    KeyBitmap,
    /// By hash partitions of both sides.
    HashPartitions,
    /// Each right chunk is joined with every left chunk.
    Tiles,
}

impl Oversized {
    pub(crate) fn of(spec: &JoinSpec) -> Self {
        if BitmapSemiJoin::of(spec).is_some() {
            return Self::KeyBitmap;
        }
        let keys = &spec.theta.equalities;
        // Then matching rows have equal hashes.
        let same = |(left, right): &(usize, usize)| {
            hashed_as(spec.left.data_type(*left)) == hashed_as(spec.right.data_type(*right))
        };
        let sides = [Side::Left, Side::Right];
        let mut sides = sides.iter().map(|side| spec.input(*side).schema());
        match !keys.is_empty() && keys.iter().all(same) && sides.all(|s| can_partition(&s)) {
            true => Self::HashPartitions,
            false => Self::Tiles,
        }
    }
}

/// A representative of all types whose values are hashed alike: precision and time zone do not matter, and a dictionary
/// is hashed by its values.
fn hashed_as(data_type: &DataType) -> DataType {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => hashed_as(values),
        Timestamp(unit, _) => Timestamp(*unit, None),
        Decimal32(_, scale) => Decimal32(9, *scale),
        Decimal64(_, scale) => Decimal64(18, *scale),
        Decimal128(_, scale) => Decimal128(38, *scale),
        Decimal256(_, scale) => Decimal256(76, *scale),
        other => other.clone(),
    }
}

/// The decision about a join's partitions, and the limits for them.
pub(crate) struct Grace {
    spec: Arc<JoinSpec>,
    memory_limits: Arc<Limits>,
    /// The chunk limits of each side.
    limits: [ChunkLimits; 2],
    metrics: DeviceMetrics,
}

impl Grace {
    pub(crate) fn new(
        spec: Arc<JoinSpec>,
        device: &Arc<dyn Device>,
        context: &TaskContext,
        spilling: Option<&Spilling>,
        metrics: &DeviceMetrics,
    ) -> Self {
        let pool = context.memory_pool();
        let chunk_rows = BowtieOptions::of(context.session_config().options())
            .chunk_rows
            .0;
        let limits = [Side::Left, Side::Right].map(|side| {
            let schema = spec.input(side).schema();
            let pool = pool.as_ref();
            ChunkLimits::new(device.as_ref(), &schema, chunk_rows, Role::Left, pool)
        });
        Self {
            spec,
            memory_limits: Arc::new(Limits::new(context, device, spilling, metrics)),
            limits,
            metrics: metrics.clone(),
        }
    }

    /// Both sides partitioned if that makes fewer tiles, otherwise unchanged.
    pub(crate) async fn sides(
        self: &Arc<Self>,
        left: Vec<InputChunk>,
        right: InputStream,
    ) -> Result<(Vec<InputChunk>, InputStream)> {
        let sides = [Side::Left, Side::Right];
        let mut sides = sides.iter().map(|side| self.spec.input(*side).schema());
        if left.len() < LEAST_CHUNKS
            || self.fits_device(&left)?
            || !sides.all(|schema| self.memory_limits.may_gather(&schema))
        {
            return Ok((left, right));
        }
        let (left, partitioned) = self.has_partitions(left).await?;
        if !partitioned {
            return Ok((left, right));
        }
        let limits = Arc::clone(&self.memory_limits);
        let held = Gathered {
            chunks: left,
            ..Gathered::new(&limits.device, limits.spilling.as_ref())
        };
        let right = Peek::of(right, &limits, LEAST_CHUNKS);
        let (held, right) = await_or_evict(&limits.device, held, right).await?;
        let left = held.chunks;
        if right.known_chunks() < LEAST_CHUNKS {
            return Ok((left, right.all()));
        }
        let partitions = self.partitions(&left)?;
        self.metrics.in_partitions(partitions);
        let rows: usize = left.iter().map(InputChunk::rows).sum();
        let left = stream::iter(left.into_iter().map(Input::Chunk).map(Ok)).boxed();
        let left = self.partitioner(Side::Left, partitions, left).into_stream();
        let left: Vec<Input> = left.try_collect().await?;
        let left = left.into_iter().filter_map(Input::into_chunk).collect();
        let most = match self.spec.fetch {
            Some(_) => rows,
            None => ROUND.saturating_mul(rows),
        };
        let most = most.min(self.memory_limits.round_rows(right.chunks().first())?);
        let right = self.partitioner(Side::Right, partitions, right.all());
        let right = right.in_rounds(most, rows / 2);
        Ok((left, right.into_stream()))
    }

    /// Whether a few left chunks are on the device and leave room there for the work on right ones. They are several because of the most text of a
    /// chunk. To partition them would take all rows to the host and back.
    fn fits_device(&self, left: &[InputChunk]) -> Result<bool> {
        let device = &self.memory_limits.device;
        let limit = device.budget().limit();
        // Rows of the CPU backend are on the host, and chunks that the device's memory makes short are too many for it.
        let is_short_of_memory = self.limits[0].bytes as u64 >= limit / CHUNKS_OF_MEMORY;
        if !device.profile().prefetches || is_short_of_memory {
            return Ok(false);
        }
        let mut bytes = 0;
        for chunk in left {
            if chunk.resident().is_none() {
                return Ok(false);
            }
            bytes += chunk.bytes()?;
        }
        Ok(left.len() <= MOST_CHUNKS_ON_DEVICE && bytes <= limit / SHARE_ON_DEVICE)
    }

    /// Whether the sides are partitioned. They are not if the left keys are narrow enough for a key bitmap.
    async fn has_partitions(&self, left: Vec<InputChunk>) -> Result<(Vec<InputChunk>, bool)> {
        let spec = Arc::clone(&self.spec);
        match Oversized::of(&spec) {
            Oversized::HashPartitions => Ok((left, true)),
            Oversized::Tiles => Ok((left, false)),
            Oversized::KeyBitmap => {
                blocking_task(move || {
                    let narrow = narrow_keys::are_narrow(&spec, &left)?;
                    Ok((left, !narrow))
                })
                .await
            }
        }
    }

    fn partitioner(&self, side: Side, partitions: u32, chunks: InputStream) -> Partitioner {
        let theta = &self.spec.theta;
        let keys = Keys {
            columns: theta.keys(side).collect(),
            null_equal: theta.null_equal(),
            partitions,
        };
        let limits = self.limits[usize::from(side == Side::Right)];
        Partitioner::new(&self.memory_limits, keys, limits, chunks)
    }

    /// The number of partitions, by the rows and bytes of the left side.
    fn partitions(&self, left: &[InputChunk]) -> Result<u32> {
        let [limits, _] = self.limits;
        let (mut rows, mut bytes) = (0, 0);
        for chunk in left {
            rows += chunk.rows() as u64;
            bytes += chunk.bytes()?;
        }
        let share = |most: usize| (most as u64 * TARGET_QUARTERS / 4).max(1);
        let partitions = rows
            .div_ceil(share(limits.rows))
            .max(bytes.div_ceil(share(limits.bytes)));
        Ok(partitions.clamp(2, self.memory_limits.most_partitions().into()) as u32)
    }
}
