//! [`mergeable_states`]: partial states from the device, in the form that DataFusion's accumulators merge.

use arrow::array::{Array, ArrayRef, Float64Array, UInt64Array, make_array};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{is_not_null, nullif};
use arrow::datatypes::DataType;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use crate::error::Result;
use crate::spec::aggregate::AggregateFunction;

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
