//! [`Sum`]: the kernels of `kernels/theta/fold.cu` that add values of a type.

use arrow::datatypes::DataType;

use crate::device::cuda::columns::scan::{EXCLUSIVE_I64, EXCLUSIVE_I128, EXCLUSIVE_U32, Scan};
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::ir::physical_type::{Stored, Summed, TypeRow};

/// How a whole column is added.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whole {
    /// By a kernel: values, their validity, the sum with the number of values, and rows.
    Integers(Kernel<(U64, U64, U64, U32)>),
    /// By two kernels, for floats: in an order that depends on the rows alone.
    Floats,
}

/// Prefix sums, bounds of ranges, probe rows, sums by probe row, and ranges.
pub(crate) type RangeSum = Kernel<(U64, U64, U64, U64, U64, U32)>;

/// Values, their validity, bounds of ranges, probe rows, differences by build position, and ranges.
pub(crate) type CoverSteps = Kernel<(U64, U64, U64, U64, U64, U64, U32)>;

/// The kernels that add values of a type, and bytes of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) bytes: usize,
    /// Values, their validity, weights, weighed values, their validity, and rows.
    pub(crate) weigh: Kernel<(U64, U64, U64, U64, U64, U32)>,
    /// Values, their validity, row ids, values in the order of the row ids, and their number.
    pub(crate) in_order: Kernel<(U64, U64, U64, U64, U32)>,
    /// Adds a whole column, if there is such a kernel.
    pub(crate) whole: Option<Whole>,
    /// Sums of ranges as differences of prefix sums, and what sums of covers are prefix sums of; `None` for floats, which are added by trees.
    pub(crate) by_prefix: Option<(Scan, RangeSum, CoverSteps)>,
}

/// The kernels for a type; `None` if it has none.
pub(crate) fn sum_of(data_type: &DataType) -> Option<Sum> {
    let row = TypeRow::of(data_type);
    match (row.sum?, row.stored) {
        (Summed::Integers, Stored::I64 | Stored::U64) => Some(Sum {
            bytes: 8,
            weigh: kernels::FOLD_WEIGH_I64,
            in_order: kernels::FOLD_IN_ORDER_I64,
            whole: Some(Whole::Integers(kernels::FOLD_SUM_I64)),
            by_prefix: Some((
                EXCLUSIVE_I64,
                kernels::FOLD_RANGE_I64,
                kernels::FOLD_COVER_STEPS_I64,
            )),
        }),
        (Summed::Integers, Stored::I128) => Some(Sum {
            bytes: 16,
            weigh: kernels::FOLD_WEIGH_I128,
            in_order: kernels::FOLD_IN_ORDER_I128,
            whole: Some(Whole::Integers(kernels::FOLD_SUM_I128)),
            by_prefix: Some((
                EXCLUSIVE_I128,
                kernels::FOLD_RANGE_I128,
                kernels::FOLD_COVER_STEPS_I128,
            )),
        }),
        (Summed::Integers, Stored::I32) => Some(Sum {
            bytes: 4,
            weigh: kernels::FOLD_WEIGH_I32,
            in_order: kernels::FOLD_IN_ORDER_I32,
            whole: None,
            by_prefix: Some((
                EXCLUSIVE_U32,
                kernels::FOLD_RANGE_I32,
                kernels::FOLD_COVER_STEPS_I32,
            )),
        }),
        (Summed::Floats, Stored::F64) => Some(Sum {
            bytes: 8,
            weigh: kernels::FOLD_WEIGH_F64,
            in_order: kernels::FOLD_IN_ORDER_F64,
            whole: Some(Whole::Floats),
            by_prefix: None,
        }),
        _ => None,
    }
}
