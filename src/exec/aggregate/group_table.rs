//! [`GroupTable`]: DataFusion's own group values and accumulators, on the host. In: partial states, or arguments. Out:
//! finished groups. Overflow, NULLs and result types are DataFusion's.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::device::data::structures::Flags;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::exec::aggregate::group_values::{GroupStates, Partial, as_types, group_columns};
use crate::exec::input::chunk::InputChunk;
use crate::exec::memory::spill::Spilling;
use crate::exec::memory::spilled_groups::{GroupFile, SpilledGroups};
use crate::ir::side::Side;
use crate::spec::join_aggregate::JoinAggregateSpec;

/// Fails when the query was cancelled.
pub(crate) type CancelCheck<'a> = &'a dyn Fn() -> Result<()>;

/// The number of unmatched rows of a chunk that are read and merged together.
const UNMATCHED_ROWS: usize = 8192;

/// Groups with the accumulators of all aggregates. It may be spilled (`group_spill.rs`).
pub(crate) struct GroupTable {
    pub(crate) groups: GroupStates,
    pub(crate) reservation: MemoryReservation,
    /// Partial states of the distinct groups that came first. If they stay the only ones, they are finished without
    /// being merged.
    pub(crate) first: Option<Partial>,
    /// The output schema.
    pub(crate) schema: SchemaRef,
    /// The number of group columns.
    pub(crate) keys: usize,
    pub(crate) aggregates: Vec<Arc<AggregateFunctionExpr>>,
    /// Whether partial states come out, not results.
    writes_states: bool,
    pub(crate) spilling: Option<Spilling>,
    /// Groups that were spilled.
    pub(crate) spilled: Option<SpilledGroups>,
    pub(crate) finishing: Finishing,
}

/// Which groups were already emitted.
pub(crate) enum Finishing {
    NotYet,
    /// The files whose groups are still to be emitted.
    Files(Vec<GroupFile>),
    Done,
}

impl GroupTable {
    /// `schema` is the output schema: `keys` group columns, then one column for each aggregate.
    pub(crate) fn new<'a>(
        schema: &SchemaRef,
        keys: usize,
        aggregates: impl Iterator<Item = &'a Arc<AggregateFunctionExpr>>,
        reservation: MemoryReservation,
        spilling: Option<Spilling>,
    ) -> Result<Self> {
        let aggregates: Vec<_> = aggregates.cloned().collect();
        Ok(Self {
            groups: GroupStates::new(schema, keys, &aggregates)?,
            reservation,
            first: None,
            schema: Arc::clone(schema),
            keys,
            aggregates,
            writes_states: false,
            spilling,
            spilled: None,
            finishing: Finishing::NotYet,
        })
    }

    /// The same table; `states`: partial states come out of it, of which the schema has the columns.
    pub(crate) fn writing_states(mut self, states: bool) -> Self {
        self.writes_states = states;
        self
    }

    /// Whether it has no group yet.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.groups {
            GroupStates::One(_) => false,
            GroupStates::Many { values, .. } => values.is_empty() && self.first.is_none(),
        }
    }

    /// Merges partial states of distinct groups.
    pub(crate) fn merge_distinct(&mut self, partial: Partial) -> Result<()> {
        if partial.rows == 0 {
            return Ok(());
        }
        if self.is_empty() {
            self.first = Some(partial);
            return Ok(());
        }
        self.merge_partial(&partial)
    }

    fn merge_partial(&mut self, partial: &Partial) -> Result<()> {
        let groups = self.intern(&partial.keys, partial.rows)?;
        for (i, states) in partial.states.iter().enumerate() {
            self.merge(i, states, &groups)?;
        }
        Ok(())
    }

    /// The group number of each of `rows` rows, by their group columns.
    pub(crate) fn intern(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        if rows > 0
            && let Some(first) = self.first.take()
        {
            self.merge_partial(&first)?;
        }
        match &mut self.groups {
            GroupStates::One(_) => Ok(vec![0; rows]),
            GroupStates::Many { values, .. } => {
                let mut groups = Vec::with_capacity(rows);
                values.intern(columns, &mut groups)?;
                Ok(groups)
            }
        }
    }

    /// Merges partial states of aggregate `i`, one for each row, into the rows' groups.
    pub(crate) fn merge(&mut self, i: usize, states: &[ArrayRef], groups: &[usize]) -> Result<()> {
        match &mut self.groups {
            GroupStates::One(accumulators) => accumulators[i].merge_batch(states)?,
            GroupStates::Many {
                values,
                accumulators,
            } => accumulators[i].merge_batch(states, groups, values.len())?,
        }
        Ok(())
    }

    /// Adds the arguments of aggregate `i`, one for each row, to the rows' groups.
    pub(crate) fn update(&mut self, i: usize, argument: &ArrayRef, groups: &[usize]) -> Result<()> {
        let argument = std::slice::from_ref(argument);
        match &mut self.groups {
            GroupStates::One(accumulators) => accumulators[i].update_batch(argument)?,
            GroupStates::Many {
                values,
                accumulators,
            } => accumulators[i].update_batch(argument, groups, None, values.len())?,
        }
        Ok(())
    }

    /// Adds the unmatched rows of the preserved side, from row `next` on. The columns of the other side are NULL. After
    /// an allocation failure it can resume from `next`.
    pub(crate) fn merge_unmatched(
        &mut self,
        spec: &JoinAggregateSpec,
        device: &dyn Device,
        side: Side,
        chunk: &InputChunk,
        flags: &Flags,
        next: &mut usize,
    ) -> Result<()> {
        while *next < chunk.rows() {
            let (first, len) = (*next, (chunk.rows() - *next).min(UNMATCHED_ROWS));
            let rows = device.read(&device.flagged_rows(flags, first, len, false)?)?;
            let rows = UInt32Array::new(rows, None);
            let columns = group_columns(spec, chunk, first, len, &rows)?;
            let arguments = spec.aggregates.iter().map(|aggregate| {
                Ok(match aggregate.argument {
                    None => Arc::new(rows.clone()) as ArrayRef,
                    Some((of, column)) if of == side => {
                        take(&chunk.some(column, &(first..first + len))?, &rows, None)?
                    }
                    Some((other, column)) => {
                        new_null_array(spec.join.input(other).data_type(column), rows.len())
                    }
                })
            });
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let groups = self.intern(&columns, rows.len())?;
            for (i, values) in arguments.iter().enumerate() {
                self.update(i, values, &groups)?;
            }
            *next = first + len;
        }
        Ok(())
    }

    /// All groups: their group columns, then the aggregates.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let (rows, columns) = match &mut self.groups {
            GroupStates::One(accumulators) => {
                let mut values = vec![];
                for accumulator in accumulators {
                    match self.writes_states {
                        true => values.extend(accumulator.state()?),
                        false => values.push(accumulator.evaluate()?),
                    }
                }
                let columns = values.iter().map(|value| Ok(value.to_array()?));
                (1, columns.collect::<Result<Vec<_>>>()?)
            }
            GroupStates::Many { .. } if self.writes_states => match self.take_states()? {
                Some(columns) => (columns.first().map_or(0, |keys| keys.len()), columns),
                None => return Ok(RecordBatch::new_empty(Arc::clone(&self.schema))),
            },
            GroupStates::Many {
                values,
                accumulators,
            } => {
                let (rows, mut columns) = match self.first.take() {
                    Some(first) => {
                        let groups: Vec<usize> = (0..first.rows).collect();
                        for (accumulator, states) in accumulators.iter_mut().zip(&first.states) {
                            accumulator.merge_batch(states, &groups, first.rows)?;
                        }
                        (first.rows, first.keys)
                    }
                    // Without a group, accumulators of one group each have no result.
                    None if values.is_empty() => {
                        return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
                    }
                    None => (values.len(), values.emit(EmitTo::All)?),
                };
                for accumulator in accumulators {
                    columns.push(accumulator.evaluate(EmitTo::All)?);
                }
                (rows, columns)
            }
        };
        let schema = &self.schema;
        let columns = as_types(columns, schema)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }
}
