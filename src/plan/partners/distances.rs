//! Distances of values, and the bounds that a greatest distance sets, as expressions.

use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions::expr_fn::abs;
use datafusion::logical_expr::type_coercion::binary::{BinaryTypeCoercer, comparison_coercion};
use datafusion::logical_expr::{Expr, Operator, cast, lit, when};

use crate::plan::partners::function::PartnersFunction;

impl PartnersFunction {
    /// The type in which both columns are compared. With a tolerance it is one whose differences neither wrap nor lose what the tolerance tells.
    pub(super) fn common_type(
        self,
        types: &[DataType; 2],
        tolerance: Option<&Expr>,
    ) -> Result<DataType> {
        let [left, right] = types;
        let common = comparison_coercion(left, right).ok_or_else(|| {
            self.error(format!(
                "{left} and {right} cannot be compared: CAST one of them"
            ))
        })?;
        Ok(match (common, tolerance) {
            (DataType::Date32 | DataType::Date64, Some(_)) => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            (DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone), Some(_)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone)
            }
            (common, Some(_)) if common.is_integer() && common != DataType::UInt64 => {
                DataType::Int64
            }
            (common, _) => common,
        })
    }

    /// The earliest or the latest value of partners. One beyond the integers is the last one of them.
    pub(super) fn bound(
        self,
        on: &Expr,
        tolerance: &Expr,
        common: &DataType,
        is_earlier: bool,
    ) -> Result<Expr> {
        let Expr::Literal(value, _) = tolerance else {
            return Err(self.error(format!("the distance is a constant, not {tolerance}")));
        };
        let on = || on.clone();
        match common {
            DataType::Int64 => {
                let by = self.whole(value)?;
                match is_earlier {
                    true => {
                        when(on().lt(lit(i64::MIN + by)), lit(i64::MIN)).otherwise(on() - lit(by))
                    }
                    false => {
                        when(on().gt(lit(i64::MAX - by)), lit(i64::MAX)).otherwise(on() + lit(by))
                    }
                }
            }
            DataType::UInt64 => {
                let by = self.whole(value)? as u64;
                match is_earlier {
                    true => when(on().lt(lit(by)), lit(0_u64)).otherwise(on() - lit(by)),
                    false => {
                        when(on().gt(lit(u64::MAX - by)), lit(u64::MAX)).otherwise(on() + lit(by))
                    }
                }
            }
            _ => {
                self.check_distance(value, common)?;
                Ok(match is_earlier {
                    true => on() - tolerance.clone(),
                    false => on() + tolerance.clone(),
                })
            }
        }
    }

    /// Checks that a greatest distance can be added to values of a type.
    fn check_distance(self, value: &ScalarValue, common: &DataType) -> Result<()> {
        let of_value = value.data_type();
        let sum = BinaryTypeCoercer::new(common, &Operator::Plus, &of_value).get_result_type();
        let has_sum = sum.is_ok_and(|sum| comparison_coercion(common, &sum).is_some());
        if has_sum && is_from_zero(value) {
            return Ok(());
        }
        let given = Self::shown(value);
        Err(self.error(match common {
            t if t.is_floating() || t.is_decimal() => {
                format!("a distance of numbers is a finite number from 0 on, not {given}")
            }
            t if has_sum || matches!(t, DataType::Timestamp(..)) => {
                format!(
                    "a distance of times is an INTERVAL from 0 on, such as INTERVAL '10 seconds', not {given}"
                )
            }
            other => format!(
                "values of type {other} have no distance: CAST them to numbers or timestamps"
            ),
        }))
    }

    /// A distance of integers.
    fn whole(self, value: &ScalarValue) -> Result<i64> {
        match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(by))) if by >= 0 && value.data_type().is_integer() => Ok(by),
            _ => Err(self.error(format!(
                "a distance of integers is a whole number from 0 on, not {}",
                Self::shown(value)
            ))),
        }
    }

    /// The type of a distance of values of a type.
    pub(super) fn number(self, common: &DataType) -> Result<DataType> {
        Ok(match common {
            t if t.is_integer() && *t != DataType::UInt64 => DataType::Int64,
            t if t.is_floating() => DataType::Float64,
            t if t.is_decimal() => t.clone(),
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => DataType::Int64,
            _ => {
                return Err(self.error(format!(
                    "the nearest rows need integers up to BIGINT, floats, decimals, dates or timestamps, not {common}: CAST them"
                )));
            }
        })
    }

    /// The distance of two values of a type, as a number.
    pub(super) fn distance(self, left: &Expr, right: &Expr, common: &DataType) -> Result<Expr> {
        let number = self.number(common)?;
        let as_number = |side: &Expr| match *common == number {
            true => side.clone(),
            false => cast(side.clone(), number.clone()),
        };
        Ok(abs(as_number(right) - as_number(left)))
    }

    /// A value as people write it: an interval by its units, a large float by its exponent.
    pub(super) fn shown(value: &ScalarValue) -> String {
        let array = value.to_array().ok();
        let text = array.and_then(|array| array_value_to_string(&array, 0).ok());
        text.unwrap_or_else(|| value.to_string())
    }
}

/// Nanoseconds of a day.
const DAY: i128 = 86_400_000_000_000;

/// Whether a value that can be added to others is a distance: a finite number that is not negative, or an interval whose months are not negative, nor
/// all of its days and times together. A text is read when the query runs.
fn is_from_zero(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::IntervalYearMonth(Some(months)) => *months >= 0,
        ScalarValue::IntervalDayTime(Some(by)) => {
            i128::from(by.days) * DAY + i128::from(by.milliseconds) * 1_000_000 >= 0
        }
        ScalarValue::IntervalMonthDayNano(Some(by)) => {
            by.months >= 0 && i128::from(by.days) * DAY + i128::from(by.nanoseconds) >= 0
        }
        ScalarValue::DurationSecond(Some(by))
        | ScalarValue::DurationMillisecond(Some(by))
        | ScalarValue::DurationMicrosecond(Some(by))
        | ScalarValue::DurationNanosecond(Some(by)) => *by >= 0,
        number => match number.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(Some(number))) => number.is_finite() && number >= 0.0,
            _ => true,
        },
    }
}
