//! What a fused aggregation downloads from the device: partial states of rows, or arguments of expanded matches. Both
//! are brought to the form that DataFusion's accumulators take.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, UInt32Array, UInt64Array, make_array};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{is_not_null, nullif, take};
use arrow::datatypes::DataType;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::device::data::column::Column;
use crate::device::primitives::device::Device;
use crate::error::Result;
use crate::exec::join::tiles::probed_tile::ProbedTile;
use crate::ir::side::Side;
use crate::ops::probe::RowPairs;
use crate::spec::aggregate::AggregateFunction;
use crate::spec::join_aggregate::{AggregateSpec, JoinAggregateSpec};

/// Partial states of the rows of one side that have a match, by aggregate.
pub(crate) struct SideStates {
    pub side: Side,
    /// The rows with a match.
    pub matched: UInt32Array,
    /// The number of an aggregate, and its states for these rows.
    pub states: Vec<(usize, Vec<ArrayRef>)>,
}

/// Matches, and each aggregate's argument for them.
pub(crate) struct PairValues {
    pub rows: RowPairs,
    pub values: Vec<ArrayRef>,
}

impl PairValues {
    /// Gathers and downloads the arguments of matches.
    pub(crate) fn gather(
        device: &dyn Device,
        spec: &JoinAggregateSpec,
        tile: &ProbedTile,
        rows: RowPairs,
    ) -> Result<Self> {
        let values = spec
            .aggregates
            .iter()
            .map(|aggregate| match aggregate.argument {
                Some((side, column)) => {
                    let column = tile.of(side).column(column)?;
                    device.download(&device.gather(column, rows.of(side))?)
                }
                // COUNT(*) counts rows: any array without NULLs will do.
                None => Ok(Arc::new(UInt32Array::from(vec![0; rows.len()])) as ArrayRef),
            })
            .collect::<Result<_>>()?;
        Ok(Self { rows, values })
    }
}

/// Downloads the states of the matched rows, in the form that DataFusion's accumulators merge.
pub(crate) fn aggregate_states(
    device: &dyn Device,
    aggregate: &AggregateSpec,
    states: Vec<Arc<Column>>,
    matched: &UInt32Array,
) -> Result<Vec<ArrayRef>> {
    let states = states
        .into_iter()
        .map(|state| Ok(take(&device.download(&state)?, matched, None)?))
        .collect::<Result<Vec<_>>>()?;
    mergeable_states(aggregate.function, &aggregate.aggregate, states)
}

/// Converts states to the form that DataFusion's accumulators merge.
pub(crate) fn mergeable_states(
    function: AggregateFunction,
    aggregate: &AggregateFunctionExpr,
    states: Vec<ArrayRef>,
) -> Result<Vec<ArrayRef>> {
    let types = aggregate.state_fields()?;
    let mut states = states
        .into_iter()
        .zip(&types)
        .map(|(state, field)| relabel(state, field.data_type()))
        .collect::<Result<Vec<_>>>()?;
    match function {
        AggregateFunction::Avg => {
            // DataFusion divides by every count that is not NULL.
            let nothing = eq(&states[0], &UInt64Array::new_scalar(0))?;
            states[0] = nullif(&states[0], &nothing)?;
        }
        AggregateFunction::Variance => {
            // DataFusion reads the counts, and expects no NULLs in the other states.
            for state in &mut states[1..] {
                *state = zero_for_null(state)?;
            }
        }
        _ => {}
    }
    Ok(states)
}

fn zero_for_null(state: &ArrayRef) -> Result<ArrayRef> {
    let is_valid = is_not_null(state)?;
    Ok(zip(&is_valid, state, &Float64Array::new_scalar(0.0))?)
}

/// The same words under the type of DataFusion's state: another precision of a decimal, or a count with another sign.
fn relabel(state: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if state.data_type() == data_type {
        return Ok(state);
    }
    let data = state.to_data().into_builder().data_type(data_type.clone());
    Ok(make_array(data.build()?))
}
