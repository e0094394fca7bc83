//! Checks arrays that other libraries handed over. The interface passes addresses alone, and what follows reads where offsets, keys and views lead,
//! on a GPU by address: an array whose offsets, keys or views lead outside of its buffers is an error here.
//!
//! Text is not checked to be UTF-8: that would read all bytes of all values, and costs as much as many queries do. Offsets, keys and views
//! are a few bytes per row.

use arrow::array::{Array, ArrayData, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Checks the columns of a batch.
pub fn check_batch(batch: &RecordBatch) -> Result<(), ArrowError> {
    let fields = batch.schema_ref().fields().iter();
    fields
        .zip(batch.columns())
        .try_for_each(|(field, column)| check(field.name(), column.as_ref()))
}

/// Checks a column.
///
/// # Errors
/// If its offsets, keys or views, or those of a nested array, lead outside of their buffers.
pub fn check(name: &str, column: &dyn Array) -> Result<(), ArrowError> {
    check_data(&column.to_data()).map_err(|error| {
        ArrowError::CDataInterface(format!(
            "the column '{name}' is not valid Arrow data: {error}"
        ))
    })
}

fn check_data(data: &ArrayData) -> Result<(), ArrowError> {
    // Nothing is read of it, and its offset may be any.
    if data.is_empty() {
        return Ok(());
    }
    // The same offsets and views, without a look at the text.
    let as_bytes = match data.data_type() {
        DataType::Utf8 => Some(DataType::Binary),
        DataType::LargeUtf8 => Some(DataType::LargeBinary),
        DataType::Utf8View => Some(DataType::BinaryView),
        _ => None,
    };
    match (as_bytes, data.data_type()) {
        (Some(bytes), _) => drop(data.clone().into_builder().data_type(bytes).build()?),
        (None, DataType::ListView(_) | DataType::LargeListView(_)) => data.validate()?,
        (None, _) => data.validate_values()?,
    }
    data.child_data().iter().try_for_each(check_data)
}
