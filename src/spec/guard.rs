//! Guards: conditions on a tile's values under which a rewritten condition is exact.

use arrow::array::{Array, ArrayRef, AsArray, downcast_integer};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};

use crate::ir::side::Side;

/// A property of two chunks. Where it fails, the source's whole filter is evaluated instead of the rewritten one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Guard {
    /// `first - second` (or `first + second`) stays between `low` and `high`, so DataFusion's integers do not wrap.
    NoOverflow {
        first: (Side, usize),
        second: (Side, usize),
        subtract: bool,
        low: i128,
        high: i128,
    },
    /// All values are finite, and small enough that their differences are.
    Finite((Side, usize)),
    /// No value is NULL.
    NotNull((Side, usize)),
}

/// Beyond it a difference of two floats may be infinite, or a slack of a few units in the last place underflow.
const LARGEST_FLOAT: f64 = 1e300;

impl Guard {
    /// Whether it holds for the columns of two chunks.
    pub(crate) fn holds<Parts: AsRef<[ArrayRef]>, E>(
        &self,
        parts: impl Fn(Side, usize) -> Result<Parts, E>,
    ) -> Result<bool, E> {
        Ok(match *self {
            Self::NotNull((side, index)) => {
                let parts = parts(side, index)?;
                parts
                    .as_ref()
                    .iter()
                    .all(|part| part.logical_null_count() == 0)
            }
            Self::NoOverflow {
                first,
                second,
                subtract,
                low,
                high,
            } => {
                let extremes = (
                    Extremes::of(parts(first.0, first.1)?.as_ref()),
                    Extremes::of(parts(second.0, second.1)?.as_ref()),
                );
                match extremes {
                    (Extremes::Of(a, b), Extremes::Of(c, d)) => {
                        let (c, d) = match subtract {
                            true => (d.saturating_neg(), c.saturating_neg()),
                            false => (c, d),
                        };
                        let (least, greatest) = (a.checked_add(c), b.checked_add(d));
                        least.is_some_and(|v| v >= low) && greatest.is_some_and(|v| v <= high)
                    }
                    (Extremes::Unknown, _) | (_, Extremes::Unknown) => false,
                    // A side of NULLs alone has no match.
                    _ => true,
                }
            }
            Self::Finite((side, index)) => parts(side, index)?.as_ref().iter().all(|part| {
                let Ok(values) = cast(part, &DataType::Float64) else {
                    return false;
                };
                let values = values.as_primitive::<Float64Type>();
                values
                    .iter()
                    .flatten()
                    .all(|v| v.is_finite() && v.abs() <= LARGEST_FLOAT)
            }),
        })
    }
}

enum Extremes {
    Of(i128, i128),
    /// All values are NULL.
    Nothing,
    Unknown,
}

impl Extremes {
    /// Least and greatest value of a column of integers or decimals.
    fn of(parts: &[ArrayRef]) -> Self {
        parts
            .iter()
            .fold(Self::Nothing, |all, part| match (all, extremes(part)) {
                (Self::Of(a, b), Self::Of(c, d)) => Self::Of(a.min(c), b.max(d)),
                (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
                (Self::Nothing, other) | (other, Self::Nothing) => other,
            })
    }
}

fn extremes(array: &ArrayRef) -> Extremes {
    macro_rules! of {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>();
            match (min(values), max(values)) {
                (Some(least), Some(greatest)) => Extremes::Of(least.into(), greatest.into()),
                _ => Extremes::Nothing,
            }
        }};
    }
    downcast_integer! {
        array.data_type() => (of),
        DataType::Decimal128(..) => of!(Decimal128Type),
        _ => Extremes::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array};

    use super::*;

    #[test]
    fn differences_that_may_wrap_are_found() {
        let left: ArrayRef = Arc::new(Int32Array::from(vec![Some(0), None, Some(i32::MAX)]));
        let right: ArrayRef = Arc::new(Int32Array::from(vec![Some(0), Some(5)]));
        let holds = |subtract| {
            Guard::NoOverflow {
                first: (Side::Left, 0),
                second: (Side::Right, 0),
                subtract,
                low: i32::MIN.into(),
                high: i32::MAX.into(),
            }
            .holds(|side, _| {
                let array = if side == Side::Left { &left } else { &right };
                Ok::<_, ()>([Arc::clone(array)])
            })
            .unwrap()
        };
        assert!(holds(true));
        assert!(!holds(false));
    }

    #[test]
    fn floats_must_be_finite() {
        let check = |values: Vec<Option<f64>>| {
            let array: ArrayRef = Arc::new(Float64Array::from(values));
            let guard = Guard::Finite((Side::Left, 0));
            guard
                .holds(|_, _| Ok::<_, ()>([Arc::clone(&array)]))
                .unwrap()
        };
        assert!(check(vec![Some(1.5), None]));
        assert!(!check(vec![Some(f64::NAN)]));
        assert!(!check(vec![Some(f64::NEG_INFINITY)]));
        assert!(!check(vec![Some(1e301)]));
    }
}
