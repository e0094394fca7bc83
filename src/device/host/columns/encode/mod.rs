//! Columns as codes, before they are stored: see [`Encoding`](crate::device::data::encoding::Encoding).

pub(crate) mod blocks;
pub(crate) mod dictionary;
pub(crate) mod offset;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::device::data::encoding::EncodedArrays;
use crate::error::Result;

/// The parts of a column as codes, in the current thread pool; `None` if codes would not be narrower than the values.
pub(crate) fn encode(parts: &[ArrayRef]) -> Result<Option<EncodedArrays>> {
    let Some(first) = parts.first() else {
        return Ok(None);
    };
    match first.data_type() {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => dictionary::encode(parts),
        _ => Ok(offset::encode(parts)),
    }
}
