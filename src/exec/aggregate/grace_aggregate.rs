//! Grace partitioning for aggregations. If an input of several chunks has many groups, its rows are hash-partitioned by
//! their keys (`partitioner.rs`), and each partition is aggregated by a run of its own. Without partitions the groups
//! of each chunk would be merged on the host.
//!
//! With several rounds, a partition's groups of one round wait on the host for those of the next.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use futures::{StreamExt, stream};

use crate::device::data::column::Column;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::exec::aggregate::output::GroupOutput;
use crate::exec::aggregate::run::GroupRun;
use crate::exec::blocking::blocking;
use crate::exec::chunk::chunk_limits::{ChunkLimits, Role};
use crate::exec::chunk::{DeviceChunk, DeviceStream};
use crate::exec::input::chunk::{Input, InputChunk, InputStream};
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, Step};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::partition::keys::Keys;
use crate::exec::partition::limits::Limits;
use crate::exec::partition::partitioner::{
    LEAST_CHUNKS, Partitioner, TARGET_QUARTERS, can_partition,
};
use crate::exec::partition::peek::Peek;
use crate::ir::strategies::GroupStrategy;
use crate::options::BowtieOptions;
use crate::spec::aggregate::GroupSpec;

/// Chunks that are read ahead to learn how many there are.
const FIRST_CHUNKS: usize = 8;
/// The number of partitions of an input with more chunks than were read ahead.
const PARTITIONS: u32 = 128;
/// Rows for each group of a chunk from which groups count as few. Merging them, at some 150 ns each on one thread of
/// the host, then takes no longer than copying the rows.
pub(crate) const ROWS_OF_FEW_GROUPS: usize = 16;
/// Rows of a chunk that are grouped to estimate the number of groups.
const SAMPLED_ROWS: usize = 1 << 17;

/// An aggregation whose input may be partitioned.
pub(crate) struct GroupPartitioner {
    pub spec: Arc<GroupSpec>,
    pub device: Arc<dyn Device>,
    pub context: Arc<TaskContext>,
    pub spilling: Option<Spilling>,
    pub metrics: DeviceMetrics,
}

/// How the input is aggregated.
pub(crate) enum GroupingPath {
    /// One chunk after the other, by one run.
    ByChunk(InputStream),
    /// One partition after the other.
    ByPartition(Box<Partitioner>),
}

impl GroupPartitioner {
    /// Chooses how to aggregate `input` by its first chunks.
    pub(crate) async fn choose_path(&self, input: InputStream) -> Result<GroupingPath> {
        let spilling = self.spilling.as_ref();
        let memory_limits = Limits::new(&self.context, &self.device, spilling, &self.metrics);
        if !self.may_partition() || !memory_limits.may_gather(&self.spec.input.schema()) {
            return Ok(GroupingPath::ByChunk(input));
        }
        let first = Peek::of(input, &memory_limits, LEAST_CHUNKS).await?;
        let any_resident = first
            .chunks()
            .iter()
            .any(|chunk| chunk.resident().is_some());
        // Resident chunks take device memory while they wait.
        let first = match any_resident || first.memory_pressure {
            true => first,
            false => first.up_to(FIRST_CHUNKS).await?,
        };
        if first.known_chunks() < LEAST_CHUNKS {
            return Ok(GroupingPath::ByChunk(first.all()));
        }
        let (first, many) = self.has_many_groups(first).await?;
        if !many {
            return Ok(GroupingPath::ByChunk(first.all()));
        }
        let partitions = match first.are_all() {
            true => (first.chunks().len() as u64 * 4).div_ceil(TARGET_QUARTERS) as u32,
            false => PARTITIONS,
        };
        let partitions = partitions.min(memory_limits.most_partitions());
        self.metrics.in_partitions(partitions);
        let keys = Keys {
            columns: self.spec.keys.clone(),
            null_equal: true,
            partitions,
        };
        let most = memory_limits.round_rows(first.chunks().first())?;
        let partitioner =
            Partitioner::new(&Arc::new(memory_limits), keys, self.limits(), first.all());
        // Rows that do not fit the memory pool are spilled.
        let partitioner = partitioner.in_rounds(most, usize::MAX).combined();
        Ok(GroupingPath::ByPartition(Box::new(partitioner)))
    }

    /// A run for all groups, or for those of a partition.
    pub(crate) fn make_run(&self) -> crate::error::Result<GroupRun> {
        let groups = MemoryConsumer::new("BowtieAggregate")
            .with_can_spill(self.spilling.is_some() && self.spec.key_columns() > 0)
            .register(self.context.memory_pool());
        GroupRun::new(
            Arc::clone(&self.device),
            Arc::clone(&self.spec),
            groups,
            self.spilling.clone(),
            self.metrics.clone(),
        )
    }

    /// Whether all rows of a group have equal hashes, and the columns can be partitioned.
    fn may_partition(&self) -> bool {
        let one_set = match self.spec.sets.as_slice() {
            [set] => !set.nulls.contains(&true),
            _ => false,
        };
        one_set && !self.spec.keys.is_empty() && can_partition(&self.spec.input.schema())
    }

    fn limits(&self) -> ChunkLimits {
        let chunk_rows = BowtieOptions::of(self.context.session_config().options())
            .chunk_rows
            .0;
        let (schema, pool) = (self.spec.input.schema(), self.context.memory_pool());
        let device = self.device.as_ref();
        ChunkLimits::new(device, &schema, chunk_rows, Role::Grouped, pool.as_ref())
    }

    /// Whether the first two chunks have so many groups that merging them would take longer than copying all rows to
    /// partitions: many groups for the rows of the first one, and many new ones in the second. The groups are
    /// discarded.
    async fn has_many_groups(&self, first: Peek) -> Result<(Peek, bool)> {
        let (spec, device) = (Arc::clone(&self.spec), Arc::clone(&self.device));
        let metrics = self.metrics.clone();
        let count = move |first: &mut Peek| {
            let chunks = [&first.chunks()[0], &first.chunks()[1]];
            if chunks.iter().any(|chunk| !chunk.failures().is_empty()) {
                return Ok(false);
            }
            let device = device.as_ref();
            let groups = |(): &mut (), _: &Step<'_>| groups_of(chunks, &spec, device, &metrics);
            match step::retried_if_it_fits(device, &mut (), groups, |()| true) {
                Ok(known) => Ok(known.are_many()),
                // Groups that do not fit are many.
                Err(error) if error.is_divisible() => Ok(true),
                Err(error) if error.is_out_of_host_memory() => Ok(false),
                Err(error) => Err(error),
            }
        };
        blocking(&self.metrics, first, count).await
    }
}

/// The groups of the sampled rows of two chunks.
struct SampledGroups {
    /// Sampled rows of the first chunk.
    rows: usize,
    /// Groups of the first chunk.
    groups: usize,
    /// Groups of both chunks together.
    of_both: usize,
    /// Whether all sampled rows are in an order of the keys: then chunks are grouped, and merged, by runs.
    in_order: bool,
}

impl SampledGroups {
    fn are_many(&self) -> bool {
        if self.in_order {
            return false;
        }
        // Groups that recur in each chunk are merged again for each.
        let grow = 2 * self.of_both > 3 * self.groups;
        match grow {
            true => self.groups * ROWS_OF_FEW_GROUPS > self.rows,
            false => self.groups * ROWS_OF_FEW_GROUPS > 4 * self.rows,
        }
    }
}

/// Groups a sample of two chunks by the keys alone.
fn groups_of(
    chunks: [&InputChunk; 2],
    spec: &GroupSpec,
    device: &dyn Device,
    metrics: &DeviceMetrics,
) -> crate::error::Result<SampledGroups> {
    let needed = |column| match spec.keys.contains(&column) {
        true => Need::Now,
        false => Need::Never,
    };
    let needs: Vec<Need> = (0..spec.input.columns()).map(needed).collect();
    let grouped = |chunk: &InputChunk| {
        let rows = 0..chunk.rows().min(SAMPLED_ROWS);
        let batch = chunk.upload(device, &rows, &needs, metrics)?;
        let keys = spec.keys.iter();
        let keys = keys.map(|column| Ok(batch.column(*column)?.as_ref()));
        let keys = keys.collect::<crate::error::Result<Vec<&Column>>>()?;
        device.aggregate(batch.rows(), &keys, &[], spec.grouping)
    };
    let [one, other] = [grouped(chunks[0])?, grouped(chunks[1])?];
    let keys = one.keys.iter().zip(&other.keys);
    let keys = keys.map(|(one, other)| device.concat(&[one, other]));
    let keys = keys.collect::<crate::error::Result<Vec<_>>>()?;
    let rows = one.groups + other.groups;
    let keys: Vec<&Column> = keys.iter().collect();
    let both = device.aggregate(rows, &keys, &[], spec.grouping)?;
    Ok(SampledGroups {
        rows: chunks[0].rows().min(SAMPLED_ROWS),
        groups: one.groups,
        of_both: both.groups,
        in_order: both.by.strategy == Some(GroupStrategy::Runs),
    })
}

/// Emits the groups of one partition after the other.
pub(crate) struct PartitionedGroups {
    partitioner: Box<Partitioner>,
    of: GroupPartitioner,
    /// The unfinished run of each partition.
    runs: Vec<Option<GroupRun>>,
    /// A run whose partition is complete.
    done: Option<GroupRun>,
    output: GroupOutput,
    metrics: DeviceMetrics,
}

impl PartitionedGroups {
    pub(crate) fn stream(
        partitioner: Box<Partitioner>,
        of: GroupPartitioner,
        output: GroupOutput,
    ) -> DeviceStream {
        let groups = Self {
            runs: (0..partitioner.partitions()).map(|_| None).collect(),
            partitioner,
            done: None,
            output,
            metrics: of.metrics.clone(),
            of,
        };
        stream::try_unfold(groups, Self::next).boxed()
    }

    async fn next(mut self) -> Result<Option<(DeviceChunk, Self)>> {
        loop {
            if let Some(run) = self.done.take() {
                let (run, chunk) = self.output.next(run).await?;
                if let Some(chunk) = chunk {
                    self.done = Some(run);
                    return Ok(Some((chunk, self)));
                }
            }
            match self.partitioner.next().await? {
                Some(Input::Chunk(chunk)) => self.push(chunk).await?,
                Some(Input::MemoryPressure) => self.leave_pool().await?,
                None => {
                    let mut runs = self.runs.iter_mut();
                    self.done = runs.find_map(Option::take);
                    if self.done.is_none() {
                        self.metrics.baseline.done();
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn push(&mut self, chunk: InputChunk) -> Result<()> {
        let partition = chunk.partition();
        let run = match self.runs[partition as usize].take() {
            Some(run) => run,
            None => self.of.make_run()?,
        };
        let is_done = self.partitioner.is_at_end_of(partition);
        let leaves = !self.partitioner.continues_with(partition);
        let push = move |run: &mut GroupRun| {
            run.push(chunk)?;
            match is_done {
                true => Ok(()),
                // The other partitions need the device memory.
                false if leaves => run.leave_device().map(|_| ()),
                false => Ok(()),
            }
        };
        let (run, ()) = blocking(&self.metrics, run, push).await?;
        match is_done {
            true => self.done = Some(run),
            false => self.runs[partition as usize] = Some(run),
        }
        Ok(())
    }

    async fn leave_pool(&mut self) -> Result<()> {
        let runs = std::mem::take(&mut self.runs);
        let leave = |runs: &mut Vec<Option<GroupRun>>| {
            let runs = runs.iter_mut().flatten();
            runs.into_iter().try_for_each(GroupRun::leave_pool)
        };
        self.runs = blocking(&self.metrics, runs, leave).await?.0;
        Ok(())
    }
}
