//! [`decode_array`]: the values of codes on the host.

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, make_array};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};

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
    let made = match codes.data_type() {
        DataType::UInt8 => words(codes.as_primitive::<UInt8Type>().values(), least, data_type),
        DataType::UInt16 => words(
            codes.as_primitive::<UInt16Type>().values(),
            least,
            data_type,
        ),
        DataType::UInt32 => words(
            codes.as_primitive::<UInt32Type>().values(),
            least,
            data_type,
        ),
        DataType::UInt64 => words(
            codes.as_primitive::<UInt64Type>().values(),
            least,
            data_type,
        ),
        other => Err(BowtieError::Internal(format!(
            "{other} is no type of codes"
        ))),
    }?;
    let data = ArrayData::builder(data_type.clone())
        .len(codes.len())
        .add_buffer(made)
        .nulls(codes.nulls().cloned());
    Ok(make_array(data.build()?))
}

/// `least` more than each code, as words of the type.
fn words<C: Copy + Into<u64>>(codes: &[C], least: i128, data_type: &DataType) -> Result<Buffer> {
    let values = codes
        .iter()
        .map(|code| least.wrapping_add(i128::from((*code).into())));
    Ok(match data_type.primitive_width() {
        Some(2) => values
            .map(|value| value as i16)
            .collect::<ScalarBuffer<i16>>()
            .into_inner(),
        Some(4) => values
            .map(|value| value as i32)
            .collect::<ScalarBuffer<i32>>()
            .into_inner(),
        Some(8) => values
            .map(|value| value as i64)
            .collect::<ScalarBuffer<i64>>()
            .into_inner(),
        Some(16) => values.collect::<ScalarBuffer<i128>>().into_inner(),
        _ => return Err(BowtieError::Internal(format!("{data_type} has no codes"))),
    })
}
