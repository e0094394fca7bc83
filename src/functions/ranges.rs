//! [`RangeOf`] and [`RangesOf`]: the numbers of the ranges that values are in, by which joins of comparisons are divided among workers
//! (`plan/ranges/`). Users have no reason to call them: they are functions because plans are sent as nodes and functions of DataFusion.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, Float64Array, Int64Array, Int64Builder, ListBuilder,
};
use arrow::compute::{binary, cast};
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::utils::take_function_args;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

/// Whether values of a type have ranges: those whose order is that of numbers.
pub(crate) fn have_ranges(data_type: &DataType) -> bool {
    data_type.is_numeric() && !matches!(data_type, DataType::Decimal256(..))
        || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_))
}

/// Ranges of values. The first one has all values below it, too, and the last one all above.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ranges {
    /// Of equal width, from a least value on.
    Even { least: f64, width: f64, count: i64 },
    /// Between these values, which grow. Each is the first one of a range.
    Between(Arc<[f64]>),
}

impl Ranges {
    /// The most ranges: an interval may be in all of them.
    pub(crate) const MOST: usize = 1 << 12;

    /// The number of a value's range. It grows with the value in the order in which DataFusion compares floats, in which NaN is above all
    /// others, and below them with a sign.
    pub(crate) fn of(&self, value: f64) -> i64 {
        match (self, value.is_nan(), value.is_sign_negative()) {
            (_, true, true) => 0,
            (Self::Even { count, .. }, true, false) => count - 1,
            (Self::Between(bounds), true, false) => bounds.len() as i64,
            (
                Self::Even {
                    least,
                    width,
                    count,
                },
                false,
                _,
            ) => {
                // Casts saturate.
                (((value - least) / width).floor() as i64).clamp(0, count - 1)
            }
            (Self::Between(bounds), false, _) => {
                bounds.partition_point(|bound| *bound <= value) as i64
            }
        }
    }

    /// The values between ranges.
    pub(crate) fn bounds(&self) -> Arc<[f64]> {
        match self {
            Self::Even {
                least,
                width,
                count,
            } => (1..*count).map(|i| least + width * i as f64).collect(),
            Self::Between(bounds) => Arc::clone(bounds),
        }
    }

    /// The last arguments of a call.
    pub(crate) fn arguments(&self) -> Vec<ScalarValue> {
        match self {
            Self::Even {
                least,
                width,
                count,
            } => vec![
                ScalarValue::from(*least),
                ScalarValue::from(*width),
                ScalarValue::from(*count),
            ],
            Self::Between(bounds) => {
                let bounds: Vec<_> = bounds.iter().copied().map(ScalarValue::from).collect();
                let list = ScalarValue::new_list_nullable(&bounds, &DataType::Float64);
                vec![ScalarValue::List(list)]
            }
        }
    }

    /// The values of a call, and its last arguments, which are literals.
    fn of_call(arguments: &[ColumnarValue]) -> Result<(&[ColumnarValue], Self)> {
        use ColumnarValue::Scalar;
        let (values, ranges) = match arguments {
            [
                values @ ..,
                Scalar(ScalarValue::Float64(Some(least))),
                Scalar(ScalarValue::Float64(Some(width))),
                Scalar(ScalarValue::Int64(Some(count))),
            ] => {
                let (least, width, count) = (*least, *width, *count);
                (
                    values,
                    Self::Even {
                        least,
                        width,
                        count,
                    },
                )
            }
            [values @ .., Scalar(ScalarValue::List(bounds))] if bounds.len() == 1 => {
                let bounds = numbers(&bounds.value(0))?;
                (values, Self::Between(bounds.iter().flatten().collect()))
            }
            _ => {
                return exec_err!(
                    "ranges have a least value, a width and a number, or a list of bounds, which are literals"
                );
            }
        };
        let are_ranges = match &ranges {
            Self::Even {
                least,
                width,
                count,
            } => {
                let counted = (1..=Self::MOST as i64).contains(count);
                *width > 0.0 && least.is_finite() && counted
            }
            Self::Between(bounds) => bounds.is_sorted() && bounds.len() < Self::MOST,
        };
        if !are_ranges {
            return exec_err!("there are no ranges like {ranges:?}");
        }
        Ok((values, ranges))
    }
}

/// Values as numbers in the same order; different ones may become the same.
pub(crate) fn numbers(values: &ArrayRef) -> Result<Float64Array> {
    let whole = match values.data_type() {
        DataType::Date32 | DataType::Time32(_) => cast(values, &DataType::Int32)?,
        DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => cast(values, &DataType::Int64)?,
        _ => Arc::clone(values),
    };
    Ok(cast(&whole, &DataType::Float64)?
        .as_primitive::<Float64Type>()
        .clone())
}

/// The types of the values among those of the arguments of a call.
fn values_of(arguments: &[DataType]) -> &[DataType] {
    let of_ranges = match arguments.last() {
        Some(DataType::List(_)) => 1,
        _ => 3,
    };
    &arguments[..arguments.len().saturating_sub(of_ranges)]
}

fn checked(values: &[DataType], function: &str) -> Result<()> {
    match values.iter().find(|data_type| !have_ranges(data_type)) {
        None => Ok(()),
        Some(other) => exec_err!("{function} has no ranges of values of type {other}"),
    }
}

/// `bowtie_range(value, least, width, count)`, or `bowtie_range(value, bounds)`: the number of the range of a value; NULL of NULL. With two values
/// the lower number.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RangeOf(Signature);

impl RangeOf {
    pub(crate) fn new() -> Self {
        let arguments = (2..=5).map(TypeSignature::Any).collect();
        Self(Signature::one_of(arguments, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for RangeOf {
    fn name(&self) -> &str {
        "bowtie_range"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        checked(values_of(arguments), self.name())?;
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (values, ranges) = Ranges::of_call(&arguments.args)?;
        let mut of_values = values.iter().map(|value| {
            let values = numbers(&value.to_array(arguments.number_rows)?)?;
            let of: Int64Array = values.unary(|value| ranges.of(value));
            Ok::<_, DataFusionError>(of)
        });
        let first = of_values.next().transpose()?;
        let lowest = of_values.try_fold(first, |lowest, next| {
            let next = next?;
            let Some(lowest) = lowest else {
                return Ok(Some(next));
            };
            binary(&lowest, &next, i64::min).map(Some)
        })?;
        let lowest = lowest.unwrap_or_else(|| Int64Array::new_null(arguments.number_rows));
        Ok(ColumnarValue::Array(Arc::new(lowest)))
    }
}

/// `bowtie_ranges(one, other, least, width, count)`, or `bowtie_ranges(one, other, bounds)`: the numbers of the ranges from one value to another one, whichever is less, in order; none
/// where one of them is NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RangesOf(Signature);

impl RangesOf {
    pub(crate) fn new() -> Self {
        let arguments = [3, 5].map(TypeSignature::Any).to_vec();
        Self(Signature::one_of(arguments, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for RangesOf {
    fn name(&self) -> &str {
        "bowtie_ranges"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        checked(values_of(arguments), self.name())?;
        let item = Field::new_list_field(DataType::Int64, true);
        Ok(DataType::List(Arc::new(item)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (values, ranges) = Ranges::of_call(&arguments.args)?;
        let [one, other] = take_function_args(self.name(), values)?;
        let numbers_of = |value: &ColumnarValue| numbers(&value.to_array(arguments.number_rows)?);
        let mut lists = ListBuilder::new(Int64Builder::new());
        for pair in numbers_of(one)?.iter().zip(&numbers_of(other)?) {
            // Lists are addressed by 32 bits.
            if ArrayBuilder::len(lists.values()) > i32::MAX as usize - Ranges::MOST {
                return exec_err!(
                    "a batch is in too many ranges: lower datafusion.execution.batch_size"
                );
            }
            if let (Some(one), Some(other)) = pair {
                let (one, other) = (ranges.of(one), ranges.of(other));
                for range in one.min(other)..=one.max(other) {
                    lists.values().append_value(range);
                }
            }
            lists.append(true);
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_with_values() {
        let ranges = Ranges::Even {
            least: -10.0,
            width: 2.5,
            count: 8,
        };
        let between = Ranges::Between(ranges.bounds());
        let values = [
            -f64::NAN,
            f64::NEG_INFINITY,
            -1e300,
            -10.0,
            -7.6,
            -7.5,
            -0.0,
            0.0,
            9.9,
            10.0,
            1e300,
            f64::INFINITY,
            f64::NAN,
        ];
        let numbers: Vec<i64> = values.map(|value| ranges.of(value)).into();
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert_eq!(numbers[..6], [0, 0, 0, 0, 0, 1]);
        assert_eq!(numbers[6..], [4, 4, 7, 7, 7, 7, 7]);
        let of_bounds: Vec<i64> = values.map(|value| between.of(value)).into();
        assert_eq!(of_bounds, numbers);
    }

    #[test]
    fn values_of_all_types_have_ranges_in_their_order() {
        use arrow::datatypes::TimeUnit::*;
        let numbers_of = |data_type: &DataType| {
            let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(90_000)]));
            let values = match data_type {
                DataType::Time32(_) | DataType::Date32 => cast(&values, &DataType::Int32).unwrap(),
                _ => values,
            };
            let values = cast(&values, data_type).unwrap();
            let numbers = numbers(&values).unwrap();
            assert!(numbers.is_null(1), "{data_type}");
            assert!(numbers.value(0) < numbers.value(2), "{data_type}");
        };
        for data_type in [
            DataType::Int32,
            DataType::UInt64,
            DataType::Float32,
            DataType::Float64,
            DataType::Date32,
            DataType::Date64,
            DataType::Time32(Millisecond),
            DataType::Time64(Nanosecond),
            DataType::Timestamp(Second, None),
            DataType::Timestamp(Nanosecond, Some("UTC".into())),
            DataType::Duration(Microsecond),
            DataType::Decimal128(20, 2),
        ] {
            assert!(have_ranges(&data_type));
            numbers_of(&data_type);
        }
        assert!(!have_ranges(&DataType::Utf8));
    }
}
