//! Widths of values and bitmaps in device memory.

use arrow::datatypes::DataType;

/// Bytes of a value of a type of fixed width, 0 for Boolean; `None` for other types.
pub(crate) fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(0),
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).ok().filter(|b| *b > 0),
        other => other.primitive_width(),
    }
}

/// Bytes of a bitmap of `rows` bits, in whole words of 32 bits.
pub(crate) fn bitmap_bytes(rows: usize) -> usize {
    rows.div_ceil(32) * 4
}
