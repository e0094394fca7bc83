//! [`GroupTable`]: DataFusion's own group values and accumulators, which merge partial states and finish them, so that
//! overflow, NULL and result types are DataFusion's.

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

/// An error when the work is not wanted any more.
pub(crate) type CancelCheck<'a> = &'a dyn Fn() -> Result<()>;

/// Rows without a partner that are merged at once.
const UNMATCHED_ROWS: usize = 8192;

pub(crate) struct GroupTable {
    pub(crate) groups: GroupStates,
    pub(crate) reservation: MemoryReservation,
    /// Partial states of distinct groups, which come first and may stay the only ones: then they are finished as they are.
    pub(crate) first: Option<Partial>,
    /// That of the output.
    pub(crate) schema: SchemaRef,
    pub(crate) keys: usize,
    pub(crate) aggregates: Vec<Arc<AggregateFunctionExpr>>,
    pub(crate) spilling: Option<Spilling>,
    /// Groups that left the memory.
    pub(crate) spilled: Option<SpilledGroups>,
    pub(crate) finishing: Finishing,
}

/// How far the groups came out.
pub(crate) enum Finishing {
    NotYet,
    /// What is left of those that were spilled.
    Files(Vec<GroupFile>),
    Done,
}

impl GroupTable {
    /// `schema` is that of the output: `keys` columns, then one for each aggregate.
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
            spilling,
            spilled: None,
            finishing: Finishing::NotYet,
        })
    }

    /// Merges partial states of distinct groups.
    pub(crate) fn merge_distinct(&mut self, partial: Partial) -> Result<()> {
        if partial.rows == 0 {
            return Ok(());
        }
        if let GroupStates::Many { values, .. } = &self.groups
            && values.is_empty()
            && self.first.is_none()
        {
            self.first = Some(partial);
            return Ok(());
        }
        if let Some(first) = self.first.take() {
            self.merge_partial(&first)?;
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

    /// Groups of `rows` rows, by their group columns.
    pub(crate) fn intern(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        match &mut self.groups {
            GroupStates::One(_) => Ok(vec![0; rows]),
            GroupStates::Many { values, .. } => {
                let mut groups = Vec::with_capacity(rows);
                values.intern(columns, &mut groups)?;
                Ok(groups)
            }
        }
    }

    /// Merges partial states of aggregate `i`, one a row, into the rows' groups.
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

    /// Adds arguments of aggregate `i`, one a row, to the rows' groups.
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

    /// Rows of the preserved side without a partner, from row `next` on: their partner's columns are NULL. Where the device has no room, it
    /// can go on from there.
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

    /// All groups: their columns, then the aggregates.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let schema = &self.schema;
        let (rows, columns) = match &mut self.groups {
            GroupStates::One(accumulators) => {
                let values = accumulators
                    .iter_mut()
                    .map(|a| Ok(a.evaluate()?.to_array()?))
                    .collect::<Result<Vec<_>>>()?;
                (1, values)
            }
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
                    // Accumulators of one group each have nothing to say then.
                    None if values.is_empty() => {
                        return Ok(RecordBatch::new_empty(Arc::clone(schema)));
                    }
                    None => (values.len(), values.emit(EmitTo::All)?),
                };
                for accumulator in accumulators {
                    columns.push(accumulator.evaluate(EmitTo::All)?);
                }
                (rows, columns)
            }
        };
        let columns = as_types(columns, schema)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }
}
