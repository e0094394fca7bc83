//! Integers, dates, times and decimals as distances from a least value.
//!
//! Two parallel passes over the parts: the least and the greatest value, then the codes. The least value that codes count from is 0 where
//! that needs no wider codes, so that pieces of a table have one encoding.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use rayon::prelude::*;

use crate::device::data::encoding::{ArrayValues, EncodedArrays};
use crate::device::host::columns::encode::blocks::extents;
use crate::device::host::natives::natives;
use crate::ir::physical_type::{Stored, TypeRow};
use crate::ir::program::Kind;

/// The codes of some parts of one type; `None` for types without codes, and if codes would be no narrower than values.
pub(crate) fn encode(parts: &[ArrayRef]) -> Option<EncodedArrays> {
    let row = TypeRow::of(parts.first()?.data_type());
    if !row.has_codes {
        return None;
    }
    match row.stored {
        Stored::I16 => of_natives::<i16>(parts),
        Stored::I32 => of_natives::<i32>(parts),
        Stored::I64 => of_natives::<i64>(parts),
        Stored::I128 => of_natives::<i128>(parts),
        Stored::U16 => of_natives::<u16>(parts),
        Stored::U32 => of_natives::<u32>(parts),
        Stored::U64 => of_natives::<u64>(parts),
        _ => None,
    }
}

/// The values of an array.
struct Part<'a, N> {
    values: &'a [N],
    /// Without one where no value is NULL.
    nulls: Option<&'a NullBuffer>,
}

fn of_natives<N>(parts: &[ArrayRef]) -> Option<EncodedArrays>
where
    N: ArrowNativeType + Into<i128> + Ord,
{
    let data_type = parts[0].data_type();
    let parts = parts.iter().map(|part| {
        Some(Part {
            values: natives::<N>(part).ok()?,
            nulls: part.nulls().filter(|nulls| nulls.null_count() > 0),
        })
    });
    let parts: Vec<Part<'_, N>> = parts.collect::<Option<_>>()?;
    let of_parts = parts.par_iter().filter_map(extent);
    let extent = of_parts.reduce_with(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    // NULLs alone have any code.
    let (low, high) = extent.map_or((0, 0), |(low, high)| (low.into(), high.into()));
    let (code, least) = code_of(low, high)?;
    let codes = match code {
        Kind::U8 => codes::<N, UInt8Type>(&parts, least, |distance| distance as u8),
        Kind::U16 => codes::<N, UInt16Type>(&parts, least, |distance| distance as u16),
        Kind::U32 => codes::<N, UInt32Type>(&parts, least, |distance| distance as u32),
        _ => codes::<N, UInt64Type>(&parts, least, |distance| distance as u64),
    };
    let is_narrower = bytes_of(code) < size_of::<N>();
    is_narrower.then(|| EncodedArrays {
        blocks: extents(&codes),
        codes,
        code,
        // A NULL may have any code.
        bound: u64::try_from(high - least).map_or(u64::MAX, |most| most.saturating_add(1)),
        values: ArrayValues::Offset {
            data_type: data_type.clone(),
            least,
        },
    })
}

/// The least and the greatest value that is not NULL.
fn extent<N: Copy + Ord>(part: &Part<'_, N>) -> Option<(N, N)> {
    let of = |extent: Option<(N, N)>, value: N| {
        Some(match extent {
            Some((low, high)) => (low.min(value), high.max(value)),
            None => (value, value),
        })
    };
    match part.nulls {
        None => {
            let first = *part.values.first()?;
            let with = |(low, high): (N, N), value: N| (low.min(value), high.max(value));
            Some(part.values.iter().copied().fold((first, first), with))
        }
        Some(nulls) => nulls
            .valid_indices()
            .fold(None, |extent, at| of(extent, part.values[at])),
    }
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

fn codes<N, C: ArrowPrimitiveType>(
    parts: &[Part<'_, N>],
    least: i128,
    code: impl Fn(i128) -> C::Native + Sync,
) -> Vec<ArrayRef>
where
    N: ArrowNativeType + Into<i128>,
{
    let codes = parts.par_iter().map(|part| {
        // What is stored where a value is NULL may be anything.
        let codes = part.values.iter();
        let codes = codes.map(|value| code((*value).into().wrapping_sub(least)));
        let codes = PrimitiveArray::<C>::new(codes.collect(), part.nulls.cloned());
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
