//! [`decode_array`]: the values of codes on the host.

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, DataType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};

use crate::device::data::encoding::{CodedValues, Dictionary};
use crate::error::{BowtieError, Result};

/// The values of an array of codes.
pub(crate) fn decode_array(codes: &ArrayRef, values: &CodedValues) -> Result<ArrayRef> {
    let (data_type, least) = match values {
        CodedValues::Dictionary(Dictionary { on_host, .. }) => {
            return Ok(take(on_host, codes, None)?);
        }
        CodedValues::Offset { data_type, least } => (data_type, *least),
    };
    macro_rules! of {
        ($t:ty) => {{
            let codes = codes.as_primitive::<$t>().values().iter();
            values_of(codes.map(|code| u64::from(*code)), least)
        }};
    }
    let nulls = codes.nulls().cloned();
    match codes.data_type() {
        DataType::UInt8 => array_of(data_type, of!(UInt8Type), nulls),
        DataType::UInt16 => array_of(data_type, of!(UInt16Type), nulls),
        DataType::UInt32 => array_of(data_type, of!(UInt32Type), nulls),
        DataType::UInt64 => array_of(data_type, of!(UInt64Type), nulls),
        other => Err(BowtieError::Internal(format!(
            "{other} is no type of codes"
        ))),
    }
}

/// `least` more than each code.
fn values_of(codes: impl Iterator<Item = u64>, least: i128) -> impl Iterator<Item = i128> {
    codes.map(move |code| least.wrapping_add(code.into()))
}

/// An array of integers or decimals, of their lower bits.
pub(crate) fn array_of(
    data_type: &DataType,
    values: impl Iterator<Item = i128>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let (values, len) = match data_type.primitive_width() {
        Some(1) => buffer(values.map(|value| value as i8)),
        Some(2) => buffer(values.map(|value| value as i16)),
        Some(4) => buffer(values.map(|value| value as i32)),
        Some(8) => buffer(values.map(|value| value as i64)),
        Some(16) => buffer(values),
        _ => return Err(BowtieError::Internal(format!("{data_type} is no integer"))),
    };
    let data = ArrayData::builder(data_type.clone())
        .len(len)
        .add_buffer(values)
        .nulls(nulls);
    Ok(make_array(data.build()?))
}

fn buffer<T: ArrowNativeType>(values: impl Iterator<Item = T>) -> (Buffer, usize) {
    let values: ScalarBuffer<T> = values.collect();
    let len = values.len();
    (values.into_inner(), len)
}
