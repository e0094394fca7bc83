//! [`GroupRun`]: one execution of an aggregation. In: one chunk after the other. Out: finished groups.
//!
//! Each chunk is grouped and folded on the device, and the keys and partial states of its groups are downloaded. Groups
//! of several chunks are grouped again. DataFusion's own accumulators finish them, so overflow, NULLs and result types
//! are DataFusion's.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array, new_null_array};
use arrow::compute::cast;
use datafusion::common::utils::normalize_float_zero;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::column::Column;
use crate::device::lazy_column::Need;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, IfItFits as _, Result};
use crate::exec::aggregate::collect_values::RowGroups;
use crate::exec::aggregate::distinct::DistinctValues;
use crate::exec::aggregate::group_table::GroupTable;
use crate::exec::aggregate::group_values::Partial;
use crate::exec::aggregate::partials::{Partials, few_rows, merged};
use crate::exec::aggregate::resident::{ResidentGroups, are_results};
use crate::exec::aggregate::states::mergeable_states;
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::compact_views::compact_views;
use crate::exec::memory::shrink::{Answer, Halving, Part, by_halves};
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::step::{self, OnRefusal, Step};
use crate::exec::metrics::DeviceMetrics;
use crate::exec::transfer::chunker::has_small_dictionary;
use crate::ir::fold::Fold;
use crate::spec::aggregate::{GroupAggregate, GroupSpec, GroupState};

/// Parts of a chunk are halved down to one row.
const HALVING: Halving = Halving {
    least: 1,
    aligned: 1,
};

/// The state of an aggregation between two chunks.
pub(crate) struct GroupRun {
    pub(crate) spec: Arc<GroupSpec>,
    pub(crate) device: Arc<dyn Device>,
    /// For each input column, whether the device needs it.
    needed: Vec<Need>,
    /// Groups of the chunks so far, on the host. A group may occur in several of them.
    pub(crate) partials: Partials<Partial>,
    /// Groups that DataFusion's accumulators merge.
    pub(crate) table: GroupTable,
    spilling: Option<Spilling>,
    /// Groups on the device, as long as they fit and the output stays there.
    pub(crate) resident: Option<ResidentGroups>,
    /// Whether groups are merged by the table. It merges if a merge on the device does not fit, if no fold merges some
    /// state, if small dictionary keys cannot tell the values of several chunks apart, or if there is a single group.
    by_table: bool,
    /// Whether all rows were pushed.
    pub(crate) finishing: bool,
    /// Whether all groups were emitted on the device.
    pub(crate) on_device: bool,
    pub(crate) metrics: DeviceMetrics,
}

impl GroupRun {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        spec: Arc<GroupSpec>,
        reservation: MemoryReservation,
        spilling: Option<Spilling>,
        metrics: DeviceMetrics,
    ) -> Result<Self> {
        let mut needed = vec![Need::Never; spec.input.columns()];
        for column in reads(&spec) {
            needed[column] = Need::Now;
        }
        let aggregates = spec.aggregates.iter().map(|a| &a.aggregate);
        let keys = spec.key_columns();
        let of_table = spilling.clone();
        let table = GroupTable::new(&spec.schema, keys, aggregates, reservation, of_table)?;
        let table = table.writing_states(spec.writes_states);
        Ok(Self {
            by_table: spec.key_columns() == 0
                || spec.aggregates.iter().any(|a| !a.merges_on_device())
                || reads(&spec).any(|column| has_small_dictionary(spec.input.data_type(column))),
            finishing: false,
            on_device: false,
            resident: (spec.output_on_device && are_results(&spec))
                .then(|| ResidentGroups::new(Arc::clone(&device), Arc::clone(&spec))),
            partials: Partials::new(),
            spec,
            device,
            needed,
            table,
            spilling,
            metrics,
        })
    }

    /// For each input column, whether the device needs it.
    pub(crate) fn needed(&self) -> &[Need] {
        &self.needed
    }

    /// Groups the rows of a chunk, for one grouping set after the other, and merges the groups. Without memory for the
    /// whole chunk it is grouped in parts.
    pub(crate) fn push(&mut self, chunk: InputChunk) -> Result<()> {
        chunk.check_evaluated(|_| true)?;
        self.metrics.chunks.add(1);
        let rows = 0..chunk.rows();
        let whole = match chunk.take_prefetched(self.device.as_ref())? {
            Some(batch) => Some(batch),
            None => self
                .shared_step(|run| run.upload(&chunk, &rows))
                .if_it_fits()?,
        };
        let mut pushed = Pushed {
            run: self,
            chunk,
            whole,
            evicted: false,
        };
        for set in 0..pushed.run.spec.sets.len() {
            let work = |pushed: &mut Pushed<'_>, part: &Part| pushed.fold(part, set);
            by_halves(&mut pushed, rows.clone(), HALVING, work, Pushed::answer)?;
        }
        Ok(())
    }

    /// Runs `work` as a step beside those of others.
    pub(crate) fn shared_step<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let device = Arc::clone(&self.device);
        step::shared(device.as_ref(), OnRefusal::Shrink, |_| work(self))
    }

    /// Uploads `rows` of a chunk. Rows of a spilled chunk are read first: if the memory pool refuses them, groups are
    /// spilled, and if it still does, the error asks for fewer rows, as an allocation failure of the device does.
    fn upload(&mut self, chunk: &InputChunk, rows: &Range<usize>) -> Result<DeviceBatch> {
        let upload = |run: &Self| {
            let device = run.device.as_ref();
            chunk.upload(device, rows, &run.needed, &run.metrics)
        };
        match upload(self) {
            Err(error) if error.is_out_of_host_memory() => {}
            uploaded => return uploaded,
        }
        self.leave_pool()?;
        match upload(self) {
            Err(error) if error.is_out_of_host_memory() && rows.len() > 1 => {
                Err(BowtieError::MustSplit {
                    what: "part of a spilled chunk",
                    size: rows.len() as u64,
                    most: (rows.len() / 2) as u64,
                    unit: "rows",
                })
            }
            uploaded => uploaded,
        }
    }

    /// Groups a batch by grouping set `set` and merges its groups with those of earlier batches.
    pub(crate) fn fold(&mut self, batch: &DeviceBatch, set: usize) -> Result<()> {
        let timer = self.metrics.output_time.clone();
        let _timer = timer.timer();
        if let Some(groups) = &mut self.resident {
            self.metrics.grouped_by(groups.fold(batch)?);
            let in_the_way = groups.must_be_evicted();
            let peak = self.device.budget().peak();
            self.metrics.peak_device_bytes.set_max(peak as usize);
            if in_the_way {
                self.leave_device()?;
            }
            return Ok(());
        }
        let partial = self.partial(batch, set)?;
        self.add(partial)
    }

    /// Merges partial groups with those of earlier batches.
    pub(crate) fn add(&mut self, partial: Partial) -> Result<()> {
        if let Some(groups) = &mut self.resident {
            let add = |groups: &mut ResidentGroups, _: &Step<'_>| groups.add(&partial);
            return step::retried(self.device.as_ref(), groups, add, |_| true);
        }
        match self.by_table {
            true => self.add_to_table(partial)?,
            false => {
                self.partials.push(partial);
                if self
                    .partials
                    .are_many(few_rows(self.device.budget().limit()))
                {
                    self.merge()?;
                }
            }
        }
        self.metrics
            .peak_device_bytes
            .set_max(self.device.budget().peak() as usize);
        self.account()
    }

    /// Reserves the memory of the groups in the pool, or else spills them.
    pub(crate) fn account(&mut self) -> Result<()> {
        match self.table.account(self.partials.bytes())? {
            true => Ok(()),
            false => self.spill(),
        }
    }

    /// Spills the groups, if that is possible, because another reader of the memory pool found it full.
    pub(crate) fn leave_pool(&mut self) -> Result<()> {
        match self.table.can_spill() {
            true => self.spill(),
            false => Ok(()),
        }
    }

    fn spill(&mut self) -> Result<()> {
        for partial in self.partials.take() {
            self.add_to_table(partial)?;
        }
        self.table.spill()
    }

    /// Merges the partial groups into distinct ones, on the device or else by the table.
    pub(crate) fn merge(&mut self) -> Result<()> {
        let partials = self.partials.take();
        match merged(self.device.as_ref(), &self.spec, &partials).if_it_fits()? {
            Some(partial) => {
                self.partials.set_merged(partial);
                Ok(())
            }
            None => {
                self.by_table = true;
                partials.into_iter().try_for_each(|p| self.add_to_table(p))
            }
        }
    }

    /// Merges distinct groups into the table.
    pub(crate) fn add_to_table(&mut self, mut partial: Partial) -> Result<()> {
        self.device.check_cancelled()?;
        for (aggregate, states) in self.spec.aggregates.iter().zip(&mut partial.states) {
            if aggregate.state == GroupState::Folds {
                let of = std::mem::take(states);
                *states = mergeable_states(aggregate.function, &aggregate.aggregate, of)?;
            }
        }
        self.table.merge_distinct(partial)
    }

    /// The groups of a batch by grouping set `set`: keys and partial states, downloaded.
    fn partial(&mut self, batch: &DeviceBatch, set: usize) -> Result<Partial> {
        let set = &self.spec.sets[set];
        let device = self.device.as_ref();
        let mut key_columns: Vec<&BatchColumn> = vec![];
        for (column, null) in self.spec.keys.iter().zip(&set.nulls) {
            if !null {
                key_columns.push(batch.any(*column)?);
            }
        }
        let keys: Vec<&Column> = key_columns.iter().map(|key| key.moved()).collect();
        let mut folds: Vec<(Fold, Option<&Column>)> = vec![];
        let of_folds = |a: &&GroupAggregate| a.state == GroupState::Folds;
        for aggregate in self.spec.aggregates.iter().filter(of_folds) {
            for (fold, column) in aggregate.folds() {
                let column = column.map(|column| batch.column(column)).transpose()?;
                folds.push((fold, column.map(AsRef::as_ref)));
            }
        }
        let groups = device.aggregate(batch.rows(), &keys, &folds, self.spec.grouping)?;
        self.metrics.grouped_by(groups.by);
        let rows = groups.groups;
        let mut key_arrays = vec![];
        let mut of_groups = key_columns.iter().zip(&groups.keys);
        for (column, null) in self.spec.keys.iter().zip(&set.nulls) {
            let of_groups = if *null { None } else { of_groups.next() };
            let array = match of_groups {
                Some((key, of_groups)) => compact_views(key.download_moved(device, of_groups)?)?,
                None => new_null_array(self.spec.input.data_type(*column), rows),
            };
            // −0.0 and 0.0 are one group, as in DataFusion's own aggregation.
            key_arrays.push(normalize_float_zero(&array));
        }
        if let Some(id) = set.id {
            let ids: ArrayRef = Arc::new(UInt64Array::from(vec![id; rows]));
            let field = self.spec.schema.field(self.spec.keys.len());
            key_arrays.push(cast(&ids, field.data_type())?);
        }
        let mut columns = groups.states.iter();
        let of_rows =
            |a: &GroupAggregate| matches!(a.state, GroupState::Values | GroupState::Row(_));
        let row_groups = match self.spec.aggregates.iter().any(of_rows) {
            true => Some(RowGroups::of(device, &keys, &groups.keys)?),
            false => None,
        };
        let states = self
            .spec
            .aggregates
            .iter()
            .map(|aggregate| {
                let argument = || {
                    let column = aggregate.argument;
                    column.ok_or_else(|| BowtieError::Internal("a state of nothing".into()))
                };
                let of_groups = (&groups.keys[..], rows);
                let of_rows = || {
                    let known = row_groups.as_ref();
                    known.ok_or_else(|| BowtieError::Internal("no groups of rows".into()))
                };
                match &aggregate.state {
                    GroupState::Folds => columns
                        .by_ref()
                        .take(aggregate.function.folds().len())
                        .map(|state| compact_views(device.download(state)?))
                        .collect(),
                    GroupState::DistinctValues => {
                        let values =
                            DistinctValues::of(device, batch, &keys, argument()?, of_groups)?;
                        Ok(vec![values.lists(&aggregate.aggregate, rows)?])
                    }
                    GroupState::Values => {
                        let of = &aggregate.aggregate;
                        Ok(vec![of_rows()?.lists(device, batch, argument()?, of)?])
                    }
                    GroupState::Row(order) => {
                        of_rows()?.firsts_in_order(device, batch, argument()?, order)
                    }
                }
            })
            .collect::<Result<_>>()?;
        Ok(Partial {
            rows,
            keys: key_arrays,
            states,
        })
    }
}

/// The columns of keys, arguments and orders.
fn reads(spec: &GroupSpec) -> impl Iterator<Item = usize> {
    let arguments = spec.aggregates.iter().flat_map(GroupAggregate::columns);
    let orders = spec.aggregates.iter().filter_map(|a| match &a.state {
        GroupState::Row(order) => Some(order.columns()),
        _ => None,
    });
    spec.keys
        .iter()
        .copied()
        .chain(arguments)
        .chain(orders.flatten())
}

/// A chunk whose rows are being grouped.
struct Pushed<'a> {
    run: &'a mut GroupRun,
    chunk: InputChunk,
    /// All rows of the chunk on the device, if they fit.
    whole: Option<DeviceBatch>,
    /// Whatever could be evicted was.
    evicted: bool,
}

impl Pushed<'_> {
    /// Groups some rows of the chunk by grouping set `set`.
    fn fold(&mut self, part: &Part, set: usize) -> Result<()> {
        let device = Arc::clone(&self.run.device);
        let work = |pushed: &mut Self, _: &Step<'_>| match &pushed.whole {
            Some(batch) if part.rows.len() == batch.rows() => pushed.run.fold(batch, set),
            _ => {
                let batch = pushed.run.upload(&pushed.chunk, &part.rows)?;
                pushed.run.fold(&batch, set)
            }
        };
        let is_evictable =
            self.whole.is_some() || self.chunk.resident().is_some() || self.run.resident.is_some();
        // The memory of rows that can still be evicted is not waited for.
        match part.is_last && (self.evicted || !is_evictable) {
            true => step::retried(device.as_ref(), self, work, |_| true),
            false => step::shared(device.as_ref(), OnRefusal::Shrink, |step| work(self, step)),
        }
    }

    /// After an allocation failure, evicts the chunk and the resident groups. Only if there is nothing to evict, the
    /// rows are halved.
    fn answer(&mut self, error: &BowtieError) -> Result<Answer> {
        if !error.is_divisible() {
            return Ok(Answer::Fail);
        }
        self.whole = None;
        if !error.is_out_of_device_memory() {
            return Ok(Answer::Halve);
        }
        let chunk = &mut self.chunk;
        let evict = |run: &mut GroupRun| {
            let evicted = chunk.evict(run.spilling.as_ref());
            Ok(run.leave_device()? | evicted)
        };
        let evicted = self.run.shared_step(evict)?;
        let is_first = !std::mem::replace(&mut self.evicted, true);
        // A single row cannot be halved: it waits for memory then.
        let waits = is_first && self.chunk.rows() <= HALVING.least;
        Ok(match evicted || waits {
            true => Answer::Repeat,
            false => Answer::Halve,
        })
    }
}
