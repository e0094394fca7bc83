//! A 64-bit hash of each element of a column of lists, the same on every machine and in every version.
//!
//! It is XXH3 (of seed 0) of an element's bytes: text and binary as they are; whole numbers, dates, times and durations as
//! eight bytes, little-endian, or sixteen where they need them; decimals without the zeros at their end, and with their scale
//! behind them where one is left; floats as those of the `DOUBLE`, with one zero and one NaN; Booleans as one byte. So elements
//! that `list_sets` takes for equal have equal hashes, and so have equal numbers of other widths.

use arrow::array::{Array, AsArray, PrimitiveArray, downcast_primitive_array};
use arrow::datatypes::{ArrowPrimitiveType, DataType, IntervalDayTime, IntervalMonthDayNano, i256};
use half::f16;
use twox_hash::XxHash3_64;

/// Of NULL, an element like any other.
const NULL: u64 = 0x8E1F_5C3B_9A7D_2461;

/// The bits of every NaN.
const NAN: u64 = 0x7FF8_0000_0000_0000;

/// The hash of each value; `None` if the type has none.
pub(crate) fn element_hashes(values: &dyn Array) -> Option<Vec<u64>> {
    let scale = match values.data_type() {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    };
    downcast_primitive_array!(
        values => Some(of_primitives(values, scale)),
        DataType::Null => Some(vec![NULL; values.len()]),
        DataType::Boolean => Some(all(values.as_boolean().iter(), |value| hash(&[u8::from(value)]))),
        DataType::Utf8 => Some(all(values.as_string::<i32>().iter(), |text| hash(text.as_bytes()))),
        DataType::LargeUtf8 => Some(all(values.as_string::<i64>().iter(), |text| hash(text.as_bytes()))),
        DataType::Utf8View => Some(all(values.as_string_view().iter(), |text| hash(text.as_bytes()))),
        DataType::Binary => Some(all(values.as_binary::<i32>().iter(), hash)),
        DataType::LargeBinary => Some(all(values.as_binary::<i64>().iter(), hash)),
        DataType::BinaryView => Some(all(values.as_binary_view().iter(), hash)),
        DataType::FixedSizeBinary(_) => Some(all(values.as_fixed_size_binary().iter(), hash)),
        _ => None
    )
}

fn all<T>(values: impl Iterator<Item = Option<T>>, hash: impl Fn(T) -> u64) -> Vec<u64> {
    values.map(|value| value.map_or(NULL, &hash)).collect()
}

fn of_primitives<T>(values: &PrimitiveArray<T>, scale: i8) -> Vec<u64>
where
    T: ArrowPrimitiveType,
    T::Native: Number,
{
    all(values.iter(), |value| value.hashed(scale))
}

#[inline]
fn hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// A native value, whose hash does not depend on its width.
trait Number {
    /// The hash of value · 10^−scale; only decimals have a scale other than 0.
    fn hashed(self, scale: i8) -> u64;
}

macro_rules! whole_numbers {
    ($($native:ty),*) => {
        $(impl Number for $native {
            #[inline]
            fn hashed(self, scale: i8) -> u64 {
                decimal(i128::from(self), scale)
            }
        })*
    };
}

whole_numbers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Number for i128 {
    fn hashed(self, scale: i8) -> u64 {
        decimal(self, scale)
    }
}

impl Number for i256 {
    fn hashed(self, scale: i8) -> u64 {
        wide_decimal(self, scale)
    }
}

impl Number for f16 {
    fn hashed(self, _: i8) -> u64 {
        float(f64::from(self))
    }
}

impl Number for f32 {
    fn hashed(self, _: i8) -> u64 {
        float(f64::from(self))
    }
}

impl Number for f64 {
    fn hashed(self, _: i8) -> u64 {
        float(self)
    }
}

impl Number for IntervalDayTime {
    fn hashed(self, _: i8) -> u64 {
        let [days, milliseconds] = [self.days, self.milliseconds].map(i32::to_le_bytes);
        hash([days, milliseconds].as_flattened())
    }
}

impl Number for IntervalMonthDayNano {
    fn hashed(self, _: i8) -> u64 {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.months.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.days.to_le_bytes());
        bytes[8..].copy_from_slice(&self.nanoseconds.to_le_bytes());
        hash(&bytes)
    }
}

#[inline]
fn float(value: f64) -> u64 {
    let bits = if value.is_nan() {
        NAN
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    };
    hash(&bits.to_le_bytes())
}

#[inline]
fn decimal(mut value: i128, mut scale: i8) -> u64 {
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    match scale {
        0 => match i64::try_from(value) {
            Ok(value) => hash(&value.to_le_bytes()),
            Err(_) => hash(&value.to_le_bytes()),
        },
        1.. => with_scale::<16, 17>(value.to_le_bytes(), scale),
        _ => wide_decimal(i256::from_i128(value), scale),
    }
}

fn wide_decimal(mut value: i256, mut scale: i8) -> u64 {
    let ten = i256::from_i128(10);
    while scale > 0 && value % ten == i256::ZERO {
        value /= ten;
        scale -= 1;
    }
    while scale < 0
        && let Some(longer) = value.checked_mul(ten)
    {
        value = longer;
        scale += 1;
    }
    match value.to_i128() {
        Some(value) if scale >= 0 => decimal(value, scale),
        _ if scale == 0 => hash(&value.to_le_bytes()),
        _ => with_scale::<32, 33>(value.to_le_bytes(), scale),
    }
}

fn with_scale<const N: usize, const M: usize>(value: [u8; N], scale: i8) -> u64 {
    let mut bytes = [0; M];
    bytes[..N].copy_from_slice(&value);
    bytes[N..].copy_from_slice(&scale.to_le_bytes());
    hash(&bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BinaryArray, BooleanArray, Decimal256Array, Float32Array, Float64Array,
        Int64Array, StringArray,
    };
    use arrow::compute::cast;

    use super::*;

    fn hashes(values: &ArrayRef) -> Vec<u64> {
        element_hashes(values.as_ref()).unwrap()
    }

    #[test]
    fn are_those_of_xxh3() {
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some(""), Some("a"), None]));
        let of_text = hashes(&text);
        assert_eq!(
            of_text,
            [0x2D06_8005_38D3_94C2, 0xE6C6_32B6_1E96_4E1F, NULL]
        );
        for other in [
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
        ] {
            let cast = cast(&text, &other).unwrap();
            assert_eq!(hashes(&cast), of_text, "{other}");
        }
        let eight: ArrayRef = Arc::new(BinaryArray::from(vec![&[7, 0, 0, 0, 0, 0, 0, 0][..]]));
        let seven: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        assert_eq!(hashes(&eight), hashes(&seven));
        let one: ArrayRef = Arc::new(BinaryArray::from(vec![&[1][..]]));
        let truth: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
        assert_eq!(hashes(&one), hashes(&truth));
    }

    #[test]
    fn numbers_of_other_widths_are_the_same() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), Some(120), None]));
        let of_numbers = hashes(&numbers);
        for other in [
            DataType::Int8,
            DataType::UInt16,
            DataType::UInt64,
            DataType::Decimal32(9, 2),
            DataType::Decimal128(20, 0),
            DataType::Decimal128(30, 7),
            DataType::Decimal256(60, 30),
            DataType::Decimal256(60, -1),
        ] {
            // 120 is a multiple of ten; 1 is not one of a unit of ten.
            let kept = usize::from(matches!(other, DataType::Decimal256(_, -1)));
            let cast = hashes(&cast(&numbers, &other).unwrap());
            assert_eq!(cast[0], of_numbers[0], "{other}");
            assert_eq!(cast[1 + kept..], of_numbers[1 + kept..], "{other}");
        }
    }

    #[test]
    fn decimals_are_the_same_at_any_scale() {
        let tenths: ArrayRef = Arc::new(
            Decimal256Array::from(vec![i256::from_i128(-15), i256::from_i128(30)])
                .with_precision_and_scale(40, 1)
                .unwrap(),
        );
        let of_tenths = hashes(&tenths);
        assert_ne!(of_tenths[0], of_tenths[1]);
        for other in [
            DataType::Decimal64(10, 3),
            DataType::Decimal128(38, 9),
            DataType::Decimal256(76, 60),
        ] {
            let cast = cast(&tenths, &other).unwrap();
            assert_eq!(hashes(&cast), of_tenths, "{other}");
        }
        // Values beyond 128 bits, one of which no scale of 0 has room for.
        let long = i256::from_i128(10).checked_pow(60).unwrap();
        let of = wide_decimal;
        assert_eq!(of(long, 60), decimal(1, 0));
        assert_eq!(of(long, 0), of(i256::from_i128(10), -59));
        assert_eq!(of(long, -60), of(i256::from_i128(1), -120));
        assert_ne!(of(long, -60), of(long, -59));
    }

    #[test]
    fn floats_have_one_zero_and_one_nan() {
        let negative = f64::from_bits(NAN | 1 << 63 | 5);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, negative]));
        let of_floats = hashes(&floats);
        assert_eq!(of_floats[0], of_floats[1]);
        assert_eq!(of_floats[2], of_floats[3]);
        assert_ne!(of_floats[0], of_floats[2]);
        let halves: ArrayRef = Arc::new(Float32Array::from(vec![1.5, -2.0]));
        let of_halves = hashes(&halves);
        for other in [DataType::Float16, DataType::Float64] {
            assert_eq!(
                hashes(&cast(&halves, &other).unwrap()),
                of_halves,
                "{other}"
            );
        }
    }
}
