//! Widths of values and bitmaps in device memory.

use arrow::datatypes::DataType;

use crate::error::{BowtieError, Result};
use crate::ir::physical_type::{Stored, TypeRow};
use crate::ir::program::Kind;

/// Bytes of a value of a type of fixed width, 0 for Boolean; `None` for other types.
pub(crate) fn width(data_type: &DataType) -> Option<usize> {
    match (data_type, TypeRow::of(data_type).stored) {
        (_, Stored::Bit) => Some(0),
        (DataType::FixedSizeBinary(bytes), _) => usize::try_from(*bytes).ok().filter(|b| *b > 0),
        (_, stored) => stored.bytes(),
    }
}

/// Bytes of a bitmap of `rows` bits, in whole words of 32 bits.
pub(crate) fn bitmap_bytes(rows: usize) -> usize {
    rows.div_ceil(32) * 4
}

/// The most bytes of a column's values: offsets have 32 bits, and Arrow's are signed.
pub(crate) const MOST_BYTES: usize = i32::MAX as usize;

/// The kind of a type's values; an internal error for types without one.
pub(crate) fn kind_of(data_type: &DataType) -> Result<Kind> {
    Kind::of(data_type)
        .ok_or_else(|| BowtieError::Internal(format!("{data_type} has no kind in a program")))
}
