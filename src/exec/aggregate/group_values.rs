//! DataFusion's group values and accumulators, as a [`GroupTable`](super::group_table::GroupTable) holds them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::utils::normalize_float_zero;
use datafusion::logical_expr::{Accumulator, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use crate::error::Result;
use crate::exec::input::chunk::InputChunk;
use crate::spec::join_aggregate::JoinAggregateSpec;

/// Groups that differ from one another, and partial states of each aggregate on them: as the device folds them, or as
/// DataFusion's accumulators merge them.
#[derive(Debug)]
pub(crate) struct Partial {
    pub rows: usize,
    pub keys: Vec<ArrayRef>,
    pub states: Vec<Vec<ArrayRef>>,
}

impl Partial {
    pub(crate) fn bytes(&self) -> usize {
        let arrays = self.keys.iter().chain(self.states.iter().flatten());
        arrays.map(|array| array.get_array_memory_size()).sum()
    }
}

pub(crate) enum GroupStates {
    /// Without GROUP BY there is one group, which exists even if no row does.
    One(Vec<Box<dyn Accumulator>>),
    Many {
        values: Box<dyn GroupValues>,
        accumulators: Vec<Box<dyn GroupsAccumulator>>,
    },
}

impl GroupStates {
    pub(crate) fn new(
        schema: &SchemaRef,
        keys: usize,
        aggregates: &[Arc<AggregateFunctionExpr>],
    ) -> Result<Self> {
        let aggregates = aggregates.iter();
        Ok(match keys {
            0 => Self::One(
                aggregates
                    .map(|a| Ok(a.create_accumulator()?))
                    .collect::<Result<_>>()?,
            ),
            keys => {
                let fields = schema.fields()[..keys].to_vec();
                Self::Many {
                    values: new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)?,
                    accumulators: aggregates.map(grouped).collect::<Result<_>>()?,
                }
            }
        })
    }
}

/// Group values come out of the table in their plain type, such as a dictionary's values.
pub(crate) fn as_types(columns: Vec<ArrayRef>, schema: &SchemaRef) -> Result<Vec<ArrayRef>> {
    let columns = columns.into_iter().zip(schema.fields());
    columns
        .map(
            |(column, field)| match column.data_type() == field.data_type() {
                true => Ok(column),
                false => Ok(cast(&column, field.data_type())?),
            },
        )
        .collect()
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
pub(crate) fn group_columns(
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
