//! The aggregate functions that a device computes, and FILTER clauses as a part of arguments.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::functions_aggregate::bool_and_or::{BoolAnd, BoolOr};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::first_last::{FirstValue, LastValue};
use datafusion::functions_aggregate::median::Median;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::percentile_cont::PercentileCont;
use datafusion::functions_aggregate::stddev::{Stddev, StddevPop};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::functions_aggregate::variance::{VariancePopulation, VarianceSample};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CaseExpr, is_not_null, lit};

use crate::plan::recognise::refusal::Refusal;
use crate::spec::aggregate::AggregateFunction;

/// Gives the column of an aggregation's input that holds an expression.
pub(crate) type Find<'a> = dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<usize, Refusal> + 'a;

/// 1 where a value is not NULL, else NULL, which COUNT counts. (A CASE makes no NULLs of types without a validity bitmap, such as unions.)
pub(crate) fn one_if_not_null(
    value: Arc<dyn PhysicalExpr>,
) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
    where_true(&is_not_null(value)?, lit(1i64))
}

/// `value` where `condition` is true, else NULL. It is evaluated on those rows alone.
pub(crate) fn where_true(
    condition: &Arc<dyn PhysicalExpr>,
    value: Arc<dyn PhysicalExpr>,
) -> DataFusionResult<Arc<dyn PhysicalExpr>> {
    let branch = (Arc::clone(condition), value);
    Ok(Arc::new(CaseExpr::try_new(None, vec![branch], None)?))
}

/// The function of an aggregate, if a device has folds for it.
pub(crate) fn function_of(aggregate: &AggregateFunctionExpr) -> Option<AggregateFunction> {
    let implementation: &dyn std::any::Any = aggregate.fun().inner().as_ref();
    Some(if implementation.is::<Count>() {
        AggregateFunction::Count
    } else if implementation.is::<Sum>() {
        AggregateFunction::Sum
    } else if implementation.is::<Avg>() {
        AggregateFunction::Avg
    } else if implementation.is::<Min>() {
        AggregateFunction::Min
    } else if implementation.is::<Max>() {
        AggregateFunction::Max
    } else if implementation.is::<BoolAnd>() {
        AggregateFunction::BoolAnd
    } else if implementation.is::<BoolOr>() {
        AggregateFunction::BoolOr
    } else if implementation.is::<VarianceSample>()
        || implementation.is::<VariancePopulation>()
        || implementation.is::<Stddev>()
        || implementation.is::<StddevPop>()
    {
        AggregateFunction::Variance
    } else if implementation.is::<Median>() {
        AggregateFunction::Median
    } else if implementation.is::<PercentileCont>() {
        AggregateFunction::Percentile
    } else if implementation.is::<FirstValue>() {
        AggregateFunction::First
    } else if implementation.is::<LastValue>() {
        AggregateFunction::Last
    } else {
        let bitwise = [
            (bit_and_udaf(), AggregateFunction::BitAnd),
            (bit_or_udaf(), AggregateFunction::BitOr),
            (bit_xor_udaf(), AggregateFunction::BitXor),
        ];
        let known = bitwise
            .into_iter()
            .find(|(f, _)| aggregate.fun() == f.as_ref());
        return known.map(|(_, function)| function);
    })
}

/// Whether DataFusion sums an aggregate in the type of its argument, or in a decimal type of its width, as a device does.
pub(crate) fn sums_in_own_type(
    aggregate: &AggregateFunctionExpr,
    argument: &DataType,
) -> DataFusionResult<bool> {
    let state = aggregate.state_fields()?;
    let sum = state.last().map(|field| field.data_type());
    Ok(sum.is_some_and(|sum| same_width(sum, argument)))
}

/// Whether a device adds values of a type.
pub(crate) fn is_summed(data_type: &DataType) -> bool {
    same_width(data_type, data_type)
}

/// Types that `weigh` and `fold_ranges` add, and whose sums have the same width in DataFusion.
fn same_width(sum: &DataType, argument: &DataType) -> bool {
    use DataType::*;
    match (sum, argument) {
        (Decimal32(..), Decimal32(..))
        | (Decimal64(..), Decimal64(..))
        | (Decimal128(..), Decimal128(..))
        | (Decimal256(..), Decimal256(..)) => true,
        (Int64 | UInt64 | Float64 | Duration(_), _) => sum == argument,
        _ => false,
    }
}
