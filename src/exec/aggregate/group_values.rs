//! [`GroupStates`]: DataFusion's group values and accumulators, of which a [`GroupTable`](super::group_table::GroupTable)
//! consists. [`Partial`]: partial states of groups.

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

/// Distinct groups with the partial states of each aggregate, as the device folds them or as DataFusion's accumulators
/// merge them.
#[derive(Debug)]
pub(crate) struct Partial {
    pub rows: usize,
    pub keys: Vec<ArrayRef>,
    /// The states of each aggregate.
    pub states: Vec<Vec<ArrayRef>>,
}

impl Partial {
    pub(crate) fn bytes(&self) -> usize {
        let arrays = self.keys.iter().chain(self.states.iter().flatten());
        arrays.map(|array| array.get_array_memory_size()).sum()
    }
}

/// Group values and accumulators.
pub(crate) enum GroupStates {
    /// The only group of an aggregation without GROUP BY, which exists even without a row.
    One(Vec<Box<dyn Accumulator>>),
    /// Groups by their key columns.
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

/// Casts columns to the types of `schema`, since DataFusion's group values return plain types, such as the values of a
/// dictionary.
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

/// DataFusion's accumulator of many groups, or, if there is none, an accumulator for each group, as in DataFusion's own
/// aggregation.
fn grouped(aggregate: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if aggregate.groups_accumulator_supported() {
        return Ok(aggregate.create_groups_accumulator()?);
    }
    let aggregate = Arc::clone(aggregate);
    let one = move || aggregate.create_accumulator();
    Ok(Box::new(GroupsAccumulatorAdapter::new(one)))
}

/// The group columns of `rows`, which are counted from row `first` of the chunk.
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
            // −0.0 and 0.0 are one group, as in DataFusion's own aggregation.
            Ok(normalize_float_zero(&take(&column, rows, None)?))
        })
        .collect()
}
