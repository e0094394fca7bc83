//! [`GroupTable`]: DataFusion's own group values and accumulators, which merge partial states and finish them, so that
//! overflow, NULL and result types are DataFusion's.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::utils::normalize_float_zero;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use super::input::InputChunk;
use crate::device::{Device, Flags};
use crate::error::Result;
use crate::spec::{JoinAggregateSpec, Side};

/// Rows without a partner that are merged at once.
const UNMATCHED_ROWS: usize = 8192;

pub(super) struct GroupTable {
    groups: Groups,
    reservation: MemoryReservation,
    /// Partial states of distinct groups, which come first and may stay the only ones: then they are finished as they are.
    first: Option<Partial>,
}

/// Groups that differ from one another, and partial states of each aggregate on them: as the device folds them, or as
/// DataFusion's accumulators merge them.
#[derive(Debug)]
pub(super) struct Partial {
    pub rows: usize,
    pub keys: Vec<ArrayRef>,
    pub states: Vec<Vec<ArrayRef>>,
}

impl Partial {
    pub(super) fn bytes(&self) -> usize {
        let arrays = self.keys.iter().chain(self.states.iter().flatten());
        arrays.map(|array| array.get_array_memory_size()).sum()
    }
}

enum Groups {
    /// Without GROUP BY there is one group, which exists even if no row does.
    One(Vec<Box<dyn Accumulator>>),
    Many {
        values: Box<dyn GroupValues>,
        accumulators: Vec<Box<dyn GroupsAccumulator>>,
    },
}

impl GroupTable {
    /// `schema` is that of the output: `keys` columns, then one for each aggregate.
    pub(super) fn new<'a>(
        schema: &SchemaRef,
        keys: usize,
        aggregates: impl Iterator<Item = &'a Arc<AggregateFunctionExpr>>,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let groups = match keys {
            0 => Groups::One(
                aggregates
                    .map(|a| Ok(a.create_accumulator()?))
                    .collect::<Result<_>>()?,
            ),
            keys => {
                let fields = schema.fields()[..keys].to_vec();
                Groups::Many {
                    values: new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)?,
                    accumulators: aggregates.map(grouped).collect::<Result<_>>()?,
                }
            }
        };
        Ok(Self {
            groups,
            reservation,
            first: None,
        })
    }

    /// Merges partial states of distinct groups.
    pub(super) fn merge_distinct(&mut self, partial: Partial) -> Result<()> {
        if partial.rows == 0 {
            return Ok(());
        }
        if let Groups::Many { values, .. } = &self.groups
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
    pub(super) fn intern(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        match &mut self.groups {
            Groups::One(_) => Ok(vec![0; rows]),
            Groups::Many { values, .. } => {
                let mut groups = Vec::with_capacity(rows);
                values.intern(columns, &mut groups)?;
                Ok(groups)
            }
        }
    }

    /// Merges partial states of aggregate `i`, one a row, into the rows' groups.
    pub(super) fn merge(&mut self, i: usize, states: &[ArrayRef], groups: &[usize]) -> Result<()> {
        match &mut self.groups {
            Groups::One(accumulators) => accumulators[i].merge_batch(states)?,
            Groups::Many {
                values,
                accumulators,
            } => accumulators[i].merge_batch(states, groups, values.len())?,
        }
        Ok(())
    }

    /// Adds arguments of aggregate `i`, one a row, to the rows' groups.
    pub(super) fn update(&mut self, i: usize, argument: &ArrayRef, groups: &[usize]) -> Result<()> {
        let argument = std::slice::from_ref(argument);
        match &mut self.groups {
            Groups::One(accumulators) => accumulators[i].update_batch(argument)?,
            Groups::Many {
                values,
                accumulators,
            } => accumulators[i].update_batch(argument, groups, None, values.len())?,
        }
        Ok(())
    }

    /// Rows of the preserved side without a partner: their partner's columns are NULL.
    pub(super) fn merge_unmatched(
        &mut self,
        spec: &JoinAggregateSpec,
        device: &dyn Device,
        side: Side,
        chunk: &InputChunk,
        flags: &Flags,
    ) -> Result<()> {
        for first in (0..chunk.rows()).step_by(UNMATCHED_ROWS) {
            let len = (chunk.rows() - first).min(UNMATCHED_ROWS);
            let rows = device.read(&device.flagged_rows(flags, first, len, false)?)?;
            let rows = UInt32Array::new(rows, None);
            let columns = group_columns(spec, chunk, first, len, &rows)?;
            let groups = self.intern(&columns, rows.len())?;
            for (i, aggregate) in spec.aggregates.iter().enumerate() {
                let values: ArrayRef = match aggregate.argument {
                    None => Arc::new(rows.clone()),
                    Some((of, column)) if of == side => {
                        take(&chunk.whole(column)?.slice(first, len), &rows, None)?
                    }
                    Some((other, column)) => {
                        new_null_array(spec.join.input(other).data_type(column), rows.len())
                    }
                };
                self.update(i, &values, &groups)?;
            }
        }
        Ok(())
    }

    /// Reserves what the table takes now, and `others` bytes beside it.
    pub(super) fn account(&self, others: usize) -> Result<()> {
        let bytes = match &self.groups {
            Groups::One(accumulators) => accumulators.iter().map(|a| a.size()).sum(),
            Groups::Many {
                values,
                accumulators,
            } => values.size() + accumulators.iter().map(|a| a.size()).sum::<usize>(),
        };
        let first = self.first.as_ref().map_or(0, Partial::bytes);
        Ok(self.reservation.try_resize(bytes + first + others)?)
    }

    /// All groups: their columns, then the aggregates.
    pub(super) fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let (rows, columns) = match &mut self.groups {
            Groups::One(accumulators) => {
                let values = accumulators
                    .iter_mut()
                    .map(|a| Ok(a.evaluate()?.to_array()?))
                    .collect::<Result<Vec<_>>>()?;
                (1, values)
            }
            Groups::Many {
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
        let columns = columns
            .into_iter()
            .zip(schema.fields())
            .map(
                |(column, field)| match column.data_type() == field.data_type() {
                    true => Ok(column),
                    // Group values come out of the table in their plain type, such as a dictionary's values.
                    false => Ok(cast(&column, field.data_type())?),
                },
            )
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }
}

/// DataFusion's accumulator of many groups, or one of its accumulators for each group, as it does itself.
fn grouped(aggregate: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if aggregate.groups_accumulator_supported() {
        return Ok(aggregate.create_groups_accumulator()?);
    }
    let aggregate = Arc::clone(aggregate);
    let one = move || aggregate.create_accumulator();
    Ok(Box::new(GroupsAccumulatorAdapter::new(one)))
}

/// The group columns of `rows`, counted from row `first` of the chunk.
pub(super) fn group_columns(
    spec: &JoinAggregateSpec,
    chunk: &InputChunk,
    first: usize,
    len: usize,
    rows: &UInt32Array,
) -> Result<Vec<ArrayRef>> {
    spec.group_columns
        .iter()
        .map(|column| {
            let column = chunk.whole(*column)?.slice(first, len);
            // As DataFusion's own aggregation: −0.0 and 0.0 are one group.
            Ok(normalize_float_zero(&take(&column, rows, None)?))
        })
        .collect()
}
