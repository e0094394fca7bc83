//! Integers, dates, times and decimals as distances from a least value.
//!
//! Two parallel passes over the parts: the least and the greatest value, then the codes. The least value that codes count from is 0 where
//! that needs no wider codes, so that pieces of a table have one encoding.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveArray};
use arrow::datatypes::*;
use rayon::prelude::*;

use crate::device::data::encoding::{ArrayValues, EncodedArrays};
use crate::device::host::columns::encode::blocks::extents;
use crate::ir::program::Kind;

/// The codes of some parts of one type; `None` for types without codes, and if codes would be no narrower than values.
pub(crate) fn encode(parts: &[ArrayRef]) -> Option<EncodedArrays> {
    let data_type = parts.first()?.data_type();
    macro_rules! of {
        ($t:ty) => {
            of_type::<$t>(parts)
        };
    }
    match data_type {
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt64 => of!(UInt64Type),
        DataType::Date32 => of!(Date32Type),
        DataType::Date64 => of!(Date64Type),
        DataType::Time32(TimeUnit::Second) => of!(Time32SecondType),
        DataType::Time32(TimeUnit::Millisecond) => of!(Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => of!(Time64MicrosecondType),
        DataType::Time64(TimeUnit::Nanosecond) => of!(Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => of!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of!(TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => of!(DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => of!(DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => of!(DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => of!(DurationNanosecondType),
        DataType::Decimal128(..) => of!(Decimal128Type),
        _ => None,
    }
}

fn of_type<T: ArrowPrimitiveType>(parts: &[ArrayRef]) -> Option<EncodedArrays>
where
    T::Native: Into<i128> + Ord,
{
    let parts: Vec<&PrimitiveArray<T>> = parts
        .iter()
        .map(|part| part.as_any().downcast_ref())
        .collect::<Option<_>>()?;
    let of_parts = parts.par_iter().filter_map(|part| extent(part));
    let extent = of_parts.reduce_with(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    // NULLs alone have any code.
    let (low, high) = extent.map_or((0, 0), |(low, high)| (low.into(), high.into()));
    let (code, least) = code_of(low, high)?;
    let codes = match code {
        Kind::U8 => codes::<T, UInt8Type>(&parts, least, |distance| distance as u8),
        Kind::U16 => codes::<T, UInt16Type>(&parts, least, |distance| distance as u16),
        Kind::U32 => codes::<T, UInt32Type>(&parts, least, |distance| distance as u32),
        _ => codes::<T, UInt64Type>(&parts, least, |distance| distance as u64),
    };
    let is_narrower = bytes_of(code) < size_of::<T::Native>();
    is_narrower.then(|| EncodedArrays {
        blocks: extents(&codes),
        codes,
        code,
        // A NULL may have any code.
        bound: u64::try_from(high - least).map_or(u64::MAX, |most| most.saturating_add(1)),
        values: ArrayValues::Offset {
            data_type: parts[0].data_type().clone(),
            least,
        },
    })
}

/// The least and the greatest value that is not NULL.
fn extent<T: ArrowPrimitiveType>(part: &PrimitiveArray<T>) -> Option<(T::Native, T::Native)>
where
    T::Native: Ord,
{
    let first = match part.null_count() {
        0 => part.values().first().copied(),
        _ => part.iter().flatten().next(),
    }?;
    let with =
        |(low, high): (T::Native, T::Native), value: T::Native| (low.min(value), high.max(value));
    Some(match part.null_count() {
        0 => part.values().iter().copied().fold((first, first), with),
        _ => part.iter().flatten().fold((first, first), with),
    })
}

/// The kind of codes for values from `low` to `high`, and the value of code 0; `None` if their distances exceed 64 bits.
fn code_of(low: i128, high: i128) -> Option<(Kind, i128)> {
    let fits = |distance: i128| match u64::try_from(distance).ok()? {
        0..=0xff => Some(Kind::U8),
        0x100..=0xffff => Some(Kind::U16),
        0x1_0000..=0xffff_ffff => Some(Kind::U32),
        _ => Some(Kind::U64),
    };
    let code = fits(high.checked_sub(low)?)?;
    let from_zero = low >= 0 && fits(high) == Some(code);
    Some((code, if from_zero { 0 } else { low }))
}

fn bytes_of(code: Kind) -> usize {
    match code {
        Kind::U8 => 1,
        Kind::U16 => 2,
        Kind::U32 => 4,
        _ => 8,
    }
}

fn codes<T: ArrowPrimitiveType, C: ArrowPrimitiveType>(
    parts: &[&PrimitiveArray<T>],
    least: i128,
    code: impl Fn(i128) -> C::Native + Sync,
) -> Vec<ArrayRef>
where
    T::Native: Into<i128>,
{
    let codes = parts.par_iter().map(|part| {
        let values = part.values().iter();
        // What is stored where a value is NULL may be anything.
        let codes = values.map(|value| code((*value).into().wrapping_sub(least)));
        let codes = PrimitiveArray::<C>::new(codes.collect(), part.nulls().cloned());
        Arc::new(codes) as ArrayRef
    });
    codes.collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Decimal128Array, Int64Array, UInt64Array};

    use super::*;
    use crate::device::data::decode_array::decode_array;
    use crate::device::data::encoding::CodedValues;

    fn round_trip(parts: &[ArrayRef]) -> Option<(Kind, i128)> {
        let EncodedArrays {
            codes,
            code,
            values,
            ..
        } = encode(parts)?;
        let ArrayValues::Offset { data_type, least } = values else {
            panic!("numbers have no dictionary");
        };
        let values = CodedValues::Offset { data_type, least };
        for (codes, part) in codes.iter().zip(parts) {
            assert_eq!(&decode_array(codes, &values).unwrap(), part);
        }
        Some((code, least))
    }

    fn of(array: impl Array + 'static) -> Option<(Kind, i128)> {
        round_trip(&[Arc::new(array)])
    }

    #[test]
    fn codes_are_as_narrow_as_the_values_allow() {
        let longs = |values: &[i64]| of(Int64Array::from(values.to_vec()));
        assert_eq!(longs(&[0, 255]), Some((Kind::U8, 0)));
        assert_eq!(longs(&[1, 256]), Some((Kind::U8, 1)));
        assert_eq!(longs(&[256, 1]), Some((Kind::U8, 1)));
        assert_eq!(longs(&[7, 300]), Some((Kind::U16, 0)));
        assert_eq!(longs(&[-1, 254]), Some((Kind::U8, -1)));
        assert_eq!(
            longs(&[1 << 40, (1 << 40) + 70_000]),
            Some((Kind::U32, 1 << 40))
        );
        assert_eq!(longs(&[i64::MIN, i64::MAX]), None);
        assert_eq!(longs(&[]), Some((Kind::U8, 0)));
        assert_eq!(
            of(UInt64Array::from(vec![u64::MAX, u64::MAX - 3])),
            Some((Kind::U8, i128::from(u64::MAX) - 3))
        );
        assert_eq!(
            of(Date32Array::from(vec![8_036, 10_561])),
            Some((Kind::U16, 0))
        );
        assert_eq!(of(Date32Array::from(vec![0, 1 << 20])), None);
        let wide = Decimal128Array::from(vec![i128::MIN, i128::MIN + (1 << 40)]);
        assert_eq!(of(wide), Some((Kind::U64, i128::MIN)));
        assert_eq!(of(Decimal128Array::from(vec![i128::MIN, 1])), None);
    }

    #[test]
    fn nulls_and_parts_stay() {
        let nulls = Int64Array::from(vec![None, Some(9), None, Some(-4)]);
        let more = Int64Array::from(vec![Some(100), None]);
        let none = Int64Array::from(vec![None, None]);
        let sliced = nulls.slice(1, 3);
        let parts: [ArrayRef; 4] = [
            Arc::new(nulls),
            Arc::new(more),
            Arc::new(none),
            Arc::new(sliced),
        ];
        assert_eq!(round_trip(&parts), Some((Kind::U8, -4)));
        assert_eq!(of(Int64Array::from(vec![None, None])), Some((Kind::U8, 0)));
    }
}
