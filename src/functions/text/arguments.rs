//! The arguments of a call: their types, the constants among them, and their values by row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{ScalarValue, internal_datafusion_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs};

/// Arguments of which each has a value for every row, or one for all rows.
pub(crate) struct Arguments {
    pub(crate) arrays: Vec<ArrayRef>,
    one_for_all: Vec<bool>,
    pub(crate) rows: usize,
    /// The rows of which no argument is NULL; `None` if those are all.
    pub(crate) nulls: Option<NullBuffer>,
}

impl Arguments {
    pub(crate) fn of(args: &ScalarFunctionArgs) -> Result<Self> {
        let is_one = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let one_for_all: Vec<bool> = args.args.iter().map(is_one).collect();
        let rows = match one_for_all.contains(&false) {
            true => args.number_rows,
            false => 1,
        };
        let array = |value: &ColumnarValue| match value {
            ColumnarValue::Array(array) => Ok(Arc::clone(array)),
            ColumnarValue::Scalar(scalar) => scalar.to_array(),
        };
        let arrays = args.args.iter().map(array).collect::<Result<Vec<_>>>()?;
        let mut nulls = None;
        for (array, one) in arrays.iter().zip(&one_for_all) {
            let mut of_argument = array.logical_nulls();
            if *one {
                let is_null = of_argument.is_some_and(|nulls| nulls.is_null(0));
                of_argument = is_null.then(|| NullBuffer::new_null(rows));
            }
            nulls = NullBuffer::union(nulls.as_ref(), of_argument.as_ref());
        }
        Ok(Self {
            arrays,
            one_for_all,
            rows,
            nulls,
        })
    }

    /// Where the array of an argument has its value of a row.
    #[inline]
    pub(crate) fn at(&self, argument: usize, row: usize) -> usize {
        match self.one_for_all[argument] {
            true => 0,
            false => row,
        }
    }

    /// Whether an argument of the row is NULL, and the result with it.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    pub(crate) fn integers(&self, function: &str, argument: usize) -> Result<&Int64Array> {
        let array = &self.arrays[argument];
        array
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| not_coerced(function, array.data_type()))
    }

    /// The result of the call, one value if all arguments are.
    pub(crate) fn result(&self, made: ArrayRef) -> Result<ColumnarValue> {
        match self.one_for_all.contains(&false) {
            true => Ok(ColumnarValue::Array(made)),
            false => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &made, 0,
            )?)),
        }
    }
}

/// An argument has a type that the function's coercion does not leave.
pub(crate) fn not_coerced(function: &str, given: &DataType) -> DataFusionError {
    internal_datafusion_err!("{function} was called with {given}, which it does not coerce to")
}

/// The type in which a function takes text; dictionaries are decoded.
pub(crate) fn text_type(function: &str, given: &DataType) -> Result<DataType> {
    match given {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(given.clone()),
        DataType::Null => Ok(DataType::Utf8),
        DataType::Dictionary(_, values) => text_type(function, values),
        other => plan_err!("{function} takes text, not {other}: cast it to VARCHAR"),
    }
}

/// The type in which a function takes integers.
pub(crate) fn integer_type(function: &str, given: &DataType) -> Result<DataType> {
    match given {
        integer if integer.is_integer() || integer.is_null() => Ok(DataType::Int64),
        DataType::Dictionary(_, values) => integer_type(function, values),
        other => plan_err!("{function} takes a whole number, not {other}: cast it to BIGINT"),
    }
}

/// The integer that an argument is in every row, where the query says so.
pub(crate) fn constant_integer(args: &ReturnFieldArgs<'_>, argument: usize) -> Option<i64> {
    let constant = args.scalar_arguments.get(argument).copied().flatten()?;
    match constant.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(integer)) => integer,
        _ => None,
    }
}

/// The text that an argument is in every row, where the query says so.
pub(crate) fn constant_text<'a>(args: &ReturnFieldArgs<'a>, argument: usize) -> Option<&'a str> {
    let constant = args.scalar_arguments.get(argument).copied().flatten()?;
    constant.try_as_str().flatten()
}
