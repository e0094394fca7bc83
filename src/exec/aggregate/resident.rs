//! [`ResidentGroups`]: groups that stay on the device for the node above, which makes their results of their states. In: batches. Out: one
//! batch of distinct groups.
//!
//! Groups of several chunks are concatenated and grouped again, as `partials.rs` does for groups on the host.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::device::batches::batch::DeviceBatch;
use crate::device::batches::batch_column::BatchColumn;
use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, IfItFits as _, Result};
use crate::exec::aggregate::final_values::{FinalValue, is_exact};
use crate::exec::aggregate::group_values::Partial;
use crate::exec::aggregate::partials::{FEW_ROWS, PartialGroups, Partials};
use crate::exec::memory::compact_views::compact_views;
use crate::exec::transfer::chunker::has_small_dictionary;
use crate::ir::fold::Fold;
use crate::ir::strategies::Grouping;
use crate::spec::aggregate::GroupSpec;

/// Groups of the chunks so far. A group may occur in several of them.
pub(crate) struct ResidentGroups {
    device: Arc<dyn Device>,
    spec: Arc<GroupSpec>,
    groups: Partials<Groups>,
}

/// Distinct groups: their keys, and the states of one aggregate after the other.
struct Groups {
    rows: usize,
    keys: Vec<BatchColumn>,
    states: Vec<Column>,
}

impl PartialGroups for Groups {
    fn rows(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        let keys: u64 = self.keys.iter().map(BatchColumn::bytes).sum();
        let states: u64 = self.states.iter().map(Column::bytes).sum();
        (keys + states) as usize
    }
}

/// Whether the device makes the results of its states ([`FinalValue`]), so that DataFusion's accumulators have nothing to finish. Keys that
/// are floats are excluded, as DataFusion compares them in its own way. So are views whose bytes are on the host: they would keep all
/// buffers of their chunks alive.
pub(crate) fn are_results(spec: &GroupSpec) -> bool {
    let one_set = match spec.sets.as_slice() {
        [set] => set.id.is_none() && !set.nulls.contains(&true),
        _ => false,
    };
    let mut keys = spec.keys.iter().zip(spec.schema.fields());
    let keys = keys.all(|(column, field)| {
        let data_type = spec.input.data_type(*column);
        is_exact(spec, data_type)
            && !has_small_dictionary(data_type)
            && data_type == field.data_type()
    });
    let mut aggregates = spec.aggregates.iter();
    let results = aggregates.all(|aggregate| FinalValue::of(aggregate, spec).is_some());
    one_set && keys && results && !spec.keys.is_empty() && !spec.writes_states
}

impl ResidentGroups {
    pub(crate) fn new(device: Arc<dyn Device>, spec: Arc<GroupSpec>) -> Self {
        Self {
            device,
            spec,
            groups: Partials::new(),
        }
    }

    /// Whether the groups take so much device memory that nodes below may not fit, or keep the text of whole chunks alive.
    pub(crate) fn must_be_evicted(&self) -> bool {
        let budget = self.device.budget();
        let columns = self.groups.waiting().iter();
        let mut columns = columns.flat_map(|groups| {
            let keys = groups.keys.iter().map(BatchColumn::moved);
            keys.chain(&groups.states)
        });
        columns.any(|column| self.device.keeps_text_on_host(column))
            || self.groups.bytes() as u64 > budget.limit() / 8 && budget.is_scarce(0)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.groups.bytes()
    }

    /// Groups the rows of a batch. Returns how they were grouped.
    pub(crate) fn fold(&mut self, batch: &DeviceBatch) -> Result<Grouping> {
        let keys = self.spec.keys.iter().map(|column| batch.any(*column));
        let keys = keys.collect::<Result<Vec<&BatchColumn>>>()?;
        let mut folds = vec![];
        for aggregate in &self.spec.aggregates {
            for (fold, column) in aggregate.folds() {
                let column = column.map(|column| batch.column(column)).transpose()?;
                folds.push((fold, column.map(AsRef::as_ref)));
            }
        }
        let (groups, by) = self.grouped(batch.rows(), &keys, &folds)?;
        self.groups.push(groups);
        if self.groups.are_many(FEW_ROWS) {
            // The groups of this batch are added already. If the next batch does not fit, all groups are downloaded.
            self.merge().if_it_fits()?;
        }
        Ok(by)
    }

    /// Adds groups that are on the host.
    pub(crate) fn add(&mut self, partial: &Partial) -> Result<()> {
        let up = |array: &ArrayRef| {
            let column = self.device.upload(std::slice::from_ref(array))?;
            Arc::into_inner(column)
                .ok_or_else(|| BowtieError::Internal("an upload that is shared".into()))
        };
        let keys = partial.keys.iter().map(|key| Ok(up(key)?.into()));
        let states = partial.states.iter().flatten().map(up);
        self.groups.push(Groups {
            rows: partial.rows,
            keys: keys.collect::<Result<_>>()?,
            states: states.collect::<Result<_>>()?,
        });
        Ok(())
    }

    /// Groups rows by `keys` and folds them.
    fn grouped(
        &self,
        rows: usize,
        keys: &[&BatchColumn],
        folds: &[(Fold, Option<&Column>)],
    ) -> Result<(Groups, Grouping)> {
        let moved: Vec<&Column> = keys.iter().map(|key| key.moved()).collect();
        let groups = self
            .device
            .aggregate(rows, &moved, folds, self.spec.grouping)?;
        let by = groups.by;
        let of_groups = keys.iter().zip(groups.keys);
        let groups = Groups {
            rows: groups.groups,
            keys: of_groups.map(|(key, of)| key.of_moved(of)).collect(),
            states: groups.states,
        };
        Ok((groups, by))
    }

    /// Merges the groups into distinct ones. After a failure they are unchanged.
    fn merge(&mut self) -> Result<()> {
        let groups = self.groups.waiting();
        let keys = (0..self.spec.keys.len()).map(|i| {
            let parts: Vec<&BatchColumn> = groups.iter().map(|groups| &groups.keys[i]).collect();
            BatchColumn::concat(self.device.as_ref(), &parts)
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let functions = self.spec.aggregates.iter();
        let folds: Vec<Fold> = functions
            .flat_map(|aggregate| aggregate.function.folds().iter().copied())
            .collect();
        let states = (0..folds.len()).map(|i| {
            let parts: Vec<&Column> = groups.iter().map(|groups| &groups.states[i]).collect();
            self.device.concat(&parts)
        });
        let states = states.collect::<Result<Vec<_>>>()?;
        let folds: Vec<(Fold, Option<&Column>)> = folds
            .into_iter()
            .zip(&states)
            .map(|(fold, states)| (fold.of_states(), Some(states)))
            .collect();
        let keys: Vec<&BatchColumn> = keys.iter().collect();
        let (merged, _) = self.grouped(self.groups.rows(), &keys, &folds)?;
        self.groups.take();
        self.groups.set_merged(merged);
        Ok(())
    }

    /// All groups, each once, with the results of the aggregates; `None` if there are none, or if a result is an error of DataFusion's: then
    /// the groups are unchanged.
    pub(crate) fn finish(&mut self) -> Result<Option<DeviceBatch>> {
        if self.groups.waiting().len() > 1 {
            self.merge()?;
        }
        let computed = match self.groups.waiting() {
            [groups] => self.computed(groups),
            _ => return Ok(None),
        };
        let computed = match computed {
            Err(BowtieError::NeedsDataFusion) => return Ok(None),
            computed => computed?,
        };
        let Some(groups) = self.groups.take().pop() else {
            return Ok(None);
        };
        let mut states = groups.states.into_iter();
        let results = self.spec.aggregates.iter().zip(computed);
        let results = results.filter_map(|(aggregate, computed)| {
            let mut states = states.by_ref().take(aggregate.function.folds().len());
            let state = states.next();
            states.for_each(drop);
            computed.or(state)
        });
        // The sum of decimals has another precision than the decimals, and the same words.
        let fields = self.spec.schema.fields().iter().skip(groups.keys.len());
        let results = results.zip(fields).map(|(result, field)| {
            let result = result.relabel(field.data_type())?;
            Ok(BatchColumn::from(result))
        });
        let columns = groups.keys.into_iter().map(Ok).chain(results);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Some(DeviceBatch::of(groups.rows, columns)))
    }

    /// For each aggregate, its result if it is not its only state.
    fn computed(&self, groups: &Groups) -> Result<Vec<Option<Column>>> {
        let of_aggregates = of_aggregates(&self.spec, &groups.states);
        let results = self.spec.aggregates.iter().zip(of_aggregates);
        let results =
            results.map(
                |(aggregate, states)| match FinalValue::of(aggregate, &self.spec) {
                    Some(value) => value.computed(self.device.as_ref(), groups.rows, states),
                    None => Err(BowtieError::NeedsDataFusion),
                },
            );
        results.collect()
    }

    /// Downloads all groups.
    pub(crate) fn partials(self) -> Result<Vec<Partial>> {
        let down = |column: &Column| compact_views(self.device.download(column)?);
        let key = |key: &BatchColumn| compact_views(key.download(self.device.as_ref())?);
        let of_groups = |groups: &Groups| {
            Ok(Partial {
                rows: groups.rows,
                keys: groups.keys.iter().map(key).collect::<Result<_>>()?,
                states: of_aggregates(&self.spec, &groups.states)
                    .map(|states| states.iter().map(down).collect())
                    .collect::<Result<_>>()?,
            })
        };
        self.groups.waiting().iter().map(of_groups).collect()
    }
}

/// The states of each aggregate.
fn of_aggregates<'a>(spec: &GroupSpec, states: &'a [Column]) -> impl Iterator<Item = &'a [Column]> {
    let mut rest = states;
    spec.aggregates.iter().map(move |aggregate| {
        let (states, others) = rest.split_at(aggregate.function.folds().len());
        rest = others;
        states
    })
}
