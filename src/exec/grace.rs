//! A Grace hash join: where the left side is larger than the device, rows of both sides go to *parts* by the hashes of their keys, and
//! the join matrix has tiles of the same part alone (Kitsuregawa et al. 1983; out-of-memory joins of \[W\]).
//!
//! ```text
//!               part 0   part 1   part 2      rounds of the right side, each gathered and then given out part by part, so that a
//! left part 0   [ tiles ]                     left part goes to the device once a round, and a right row once. A round ends where
//! left part 1            [ tiles ]            the right side does, where it is so much longer than the left side that sending this
//! left part 2                     [ tiles ]   one again is cheap, or where the memory pool is full.
//! ```
//!
//! Without parts each right chunk meets every left one. A part that is longer than a chunk, as equal keys are in one of them, is walked
//! as before: tile by tile. The hashes are those of DataFusion's own join, which calls no rows equal whose hashes differ.

mod part;
mod scatter;

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::physical_plan::metrics::Time;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinError;

use super::input::{InputChunk, InputStream};
use super::key_bits::ByKeyBits;
use super::metrics::DeviceMetrics;
use super::spill::Spilling;
use crate::device::Device;
use crate::options::BowtieOptions;
use crate::spec::{JoinSpec, Side};
use crate::stream::{ChunkLimits, Role, has_small_dictionary};
use part::Part;
use scatter::{Refused, Scatter, Scattered};

/// With fewer chunks on either side there are few tiles as it is.
const LEAST_CHUNKS: usize = 3;
/// Parts at most: of a longer side they have several chunks.
const MOST_PARTS: u64 = 256;
/// A part is meant to have so many fourths of a chunk, as hashes do not make them equally long.
const FOURTHS: u64 = 3;
/// A round of the right side has so many rows for each left one, unless only some rows of the join are wanted.
const ROUND: usize = 4;
/// The share of the memory pool that chunks may take beside it while their rows are copied to parts.
const SHARE_OF_POOL: usize = 8;

/// What parts are made with.
pub(super) struct Grace {
    spec: Arc<JoinSpec>,
    spilling: Option<Spilling>,
    /// Of each side.
    limits: [ChunkLimits; 2],
    reservation: Arc<MemoryReservation>,
    /// Chunks that are copied at the same time.
    tasks: usize,
    metrics: DeviceMetrics,
}

impl Grace {
    pub(super) fn new(
        spec: Arc<JoinSpec>,
        device: &dyn Device,
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
            ChunkLimits::new(device, &schema, chunk_rows, Role::Left, pool)
        });
        let threads = context.session_config().target_partitions();
        let tasks = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => {
                let longest = limits.iter().map(|limits| limits.bytes).max();
                threads.min(limit / SHARE_OF_POOL / longest.unwrap_or(1).max(1))
            }
            _ => threads,
        };
        Self {
            spec,
            spilling: spilling.cloned(),
            limits,
            reservation: Arc::new(MemoryConsumer::new("BowtieParts").register(pool)),
            tasks: tasks.max(1),
            metrics: metrics.clone(),
        }
    }

    /// Both sides in parts, where that makes fewer tiles, or as they are.
    pub(super) async fn sides(
        self: &Arc<Self>,
        left: Vec<InputChunk>,
        right: InputStream,
    ) -> Result<(Vec<InputChunk>, InputStream)> {
        if left.len() < LEAST_CHUNKS || !self.may_part() {
            return Ok((left, right));
        }
        let (first, right) = Self::first(right).await?;
        if first.len() < LEAST_CHUNKS {
            let first = stream::iter(first.into_iter().map(Ok));
            return Ok((left, first.chain(right).boxed()));
        }
        let parts = self.parts(&left)?;
        self.metrics.in_parts(parts);
        let rows = left.iter().map(InputChunk::rows).sum();
        let left = stream::iter(left.into_iter().map(Ok)).boxed();
        let mut left = Parting::new(self, Side::Left, parts, left, usize::MAX);
        let mut parted = vec![];
        while let Some(chunk) = left.next().await? {
            parted.push(chunk);
        }
        let most = match self.spec.fetch {
            Some(_) => rows,
            None => ROUND.saturating_mul(rows),
        };
        let right = stream::iter(first.into_iter().map(Ok)).chain(right).boxed();
        let mut right = Parting::new(self, Side::Right, parts, right, most);
        right.enough = rows / 2;
        let right = stream::try_unfold(right, |mut right| async move {
            let chunk = right.next().await?;
            Ok(chunk.map(|chunk| (chunk, right)))
        });
        Ok((parted, right.boxed()))
    }

    /// Whether rows that match have keys of the same hash. Bits of keys serve all left chunks, and need no parts.
    fn may_part(&self) -> bool {
        let spec = &self.spec;
        let keys = &spec.theta.equalities;
        let same = |(left, right): &(usize, usize)| {
            spec.left.data_type(*left) == spec.right.data_type(*right)
        };
        let copied_together = [Side::Left, Side::Right].iter().all(|side| {
            let schema = spec.input(*side).schema();
            let mut fields = schema.fields().iter();
            !fields.any(|field| has_small_dictionary(field.data_type()))
        });
        !keys.is_empty()
            && keys.iter().all(same)
            && copied_together
            && ByKeyBits::of(spec).is_none()
    }

    /// Chunks of the right side, until there are enough for parts or no more, and the rest.
    async fn first(mut right: InputStream) -> Result<(Vec<InputChunk>, InputStream)> {
        let mut first = vec![];
        while first.len() < LEAST_CHUNKS {
            let Some(chunk) = right.try_next().await? else {
                break;
            };
            let crowded = chunk.is_crowded();
            first.push(chunk);
            // Who makes room has to come first.
            if crowded {
                break;
            }
        }
        Ok((first, right))
    }

    fn parts(&self, left: &[InputChunk]) -> Result<u32> {
        let [limits, _] = self.limits;
        let (mut rows, mut bytes) = (0, 0);
        for chunk in left {
            rows += chunk.rows() as u64;
            bytes += chunk.bytes()?;
        }
        let share = |most: usize| (most as u64 * FOURTHS / 4).max(1);
        let parts = rows
            .div_ceil(share(limits.rows))
            .max(bytes.div_ceil(share(limits.bytes)));
        Ok(parts.clamp(2, MOST_PARTS) as u32)
    }

    fn limits(&self, side: Side) -> ChunkLimits {
        self.limits[usize::from(side == Side::Right)]
    }
}

/// The chunks of a side on their way to parts.
struct Parting {
    grace: Arc<Grace>,
    scatter: Arc<Scatter>,
    /// None once they are at their end.
    chunks: Option<InputStream>,
    copied: VecDeque<SpawnedTask<std::result::Result<Scattered, Refused>>>,
    parts: Vec<Part>,
    /// Rows of the round.
    rows: usize,
    /// So many end it.
    most: usize,
    /// So many where the memory pool has no room.
    enough: usize,
    /// Rounds that were given out.
    rounds: usize,
    /// Chunks of the last round that are to be given out.
    ready: VecDeque<InputChunk>,
    /// The pool had no room: the reader is told after the round.
    crowded: Option<InputChunk>,
    time: Time,
}

impl Parting {
    fn new(grace: &Arc<Grace>, side: Side, parts: u32, chunks: InputStream, most: usize) -> Self {
        let theta = &grace.spec.theta;
        let keys = theta.equalities.iter().map(|(left, right)| match side {
            Side::Left => *left,
            Side::Right => *right,
        });
        let part = |number| Part::new(number, grace.limits(side), &grace.reservation);
        Self {
            scatter: Arc::new(Scatter {
                keys: keys.collect(),
                null_equal: theta.null_equal(),
                parts,
                reservation: Arc::clone(&grace.reservation),
            }),
            grace: Arc::clone(grace),
            chunks: Some(chunks),
            copied: VecDeque::new(),
            parts: (0..parts).map(part).collect(),
            rows: 0,
            most,
            enough: usize::MAX,
            rounds: 0,
            ready: VecDeque::new(),
            crowded: None,
            time: grace.metrics.parting_time(),
        }
    }

    /// The next chunk of the round that is given out.
    async fn next(&mut self) -> Result<Option<InputChunk>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(Some(chunk));
            }
            if let Some(crowded) = self.crowded.take() {
                return Ok(Some(crowded));
            }
            self.gather().await?;
            if self.ready.is_empty() && self.crowded.is_none() {
                return Ok(None);
            }
        }
    }

    /// Gathers the next round.
    async fn gather(&mut self) -> Result<()> {
        loop {
            self.start_copies().await?;
            let Some(copied) = self.copied.pop_front() else {
                if self.crowded.is_some() && !self.is_long() && self.spill().await? {
                    // There is room again.
                    self.crowded = None;
                    continue;
                }
                return self.end_round().await;
            };
            match copied.join_unwind().await.map_err(joined)? {
                Ok(scattered) => self.take(scattered).await?,
                Err(refused) => self.refused(refused).await?,
            }
            let spilling = self.grace.spilling.as_ref();
            let full = spilling.is_some_and(Spilling::pool_is_full);
            // Those that are being copied are of the next round.
            if self.rows >= self.most || (full && self.is_long()) {
                return self.end_round().await;
            }
            if full {
                self.spill().await?;
            }
        }
    }

    /// Whether the round may end because there is no room.
    fn is_long(&self) -> bool {
        self.rows > 0 && (self.rows >= self.enough || self.grace.spilling.is_none())
    }

    /// Starts to copy the next chunks to parts, until the reader has to make room.
    async fn start_copies(&mut self) -> Result<()> {
        while self.copied.len() < self.grace.tasks && self.crowded.is_none() {
            let Some(chunks) = &mut self.chunks else {
                return Ok(());
            };
            let Some(chunk) = chunks.try_next().await? else {
                self.chunks = None;
                return Ok(());
            };
            if chunk.is_crowded() {
                self.crowded = Some(chunk);
                return Ok(());
            }
            let (scatter, time) = (Arc::clone(&self.scatter), self.time.clone());
            let spilling = self.grace.spilling.clone();
            self.copied.push_back(SpawnedTask::spawn_blocking(move || {
                let _timer = time.timer();
                scatter.copy(chunk, spilling.as_ref())
            }));
        }
        Ok(())
    }

    async fn take(&mut self, scattered: Scattered) -> Result<()> {
        self.rows += scattered.rows();
        let mut parts = std::mem::take(&mut self.parts);
        self.parts = blocking(move || {
            scattered.to(&mut parts)?;
            Ok(parts)
        })
        .await?;
        Ok(())
    }

    /// Where the pool had no room to copy a chunk, the round goes to files, and the chunk too, a few rows at a time.
    async fn refused(&mut self, Refused { chunk, error }: Refused) -> Result<()> {
        let spilling = self.grace.spilling.clone();
        let Some(spilling) = spilling.filter(|_| error.is_out_of_host_memory()) else {
            return Err(error.into());
        };
        self.rows += chunk.rows();
        let (scatter, mut parts) = (Arc::clone(&self.scatter), std::mem::take(&mut self.parts));
        self.parts = blocking(move || {
            for part in &mut parts {
                part.spill(&spilling)?;
            }
            scatter.copy_beside(&chunk, &mut |scattered| {
                scattered.to(&mut parts)?;
                parts
                    .iter_mut()
                    .try_for_each(|part| part.spill(&spilling).map(|_| ()))
            })?;
            Ok(parts)
        })
        .await?;
        Ok(())
    }

    /// Takes the round to files; false where it takes no room.
    async fn spill(&mut self) -> Result<bool> {
        let Some(spilling) = self.grace.spilling.clone() else {
            return Ok(false);
        };
        let mut parts = std::mem::take(&mut self.parts);
        let (parts, spilled) = blocking(move || {
            let mut spilled = false;
            for part in &mut parts {
                spilled |= part.spill(&spilling)?;
            }
            Ok((parts, spilled))
        })
        .await?;
        self.parts = parts;
        Ok(spilled)
    }

    /// Gives the round out: the parts one way, and those of the next round the other way, so that the last part is still there.
    async fn end_round(&mut self) -> Result<()> {
        let mut parts = std::mem::take(&mut self.parts);
        let (parts, mut chunks) = blocking(move || {
            let chunks = parts.iter_mut().map(Part::finish);
            let chunks = chunks.collect::<crate::error::Result<Vec<_>>>()?;
            Ok((parts, chunks))
        })
        .await?;
        self.parts = parts;
        if self.rounds % 2 == 1 {
            chunks.reverse();
        }
        self.ready = chunks.into_iter().flatten().collect();
        self.rounds += usize::from(self.rows > 0);
        self.rows = 0;
        Ok(())
    }
}

fn joined(error: JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}

/// Does `step` on a thread that may block.
async fn blocking<T: Send + 'static>(
    step: impl FnOnce() -> crate::error::Result<T> + Send + 'static,
) -> Result<T> {
    let done = SpawnedTask::spawn_blocking(step).join_unwind().await;
    Ok(done.map_err(joined)??)
}
