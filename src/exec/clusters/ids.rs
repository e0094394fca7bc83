//! [`Ids`]: dense numbers of the distinct values of a type, in the order in which they come; and back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::utils::normalize_float_zero;
use datafusion::error::Result;

use crate::exec::clusters::byte_ids::ByteIds;
use crate::exec::clusters::numbers::NO_ID;
use crate::exec::clusters::table_memory::TableMemory;
use crate::exec::clusters::word_ids::WordIds;

/// The numbers of values.
#[derive(Debug)]
pub(crate) enum Ids {
    /// Of up to 64 bits.
    Words(WordIds),
    /// Text and binary.
    Bytes(DataType, ByteIds),
    /// Of any other type, by their rows in Arrow's row format.
    Rows(DataType, RowConverter, ByteIds),
}

/// ASC.
fn field(data_type: &DataType) -> SortField {
    let ascending = SortOptions {
        descending: false,
        nulls_first: false,
    };
    SortField::new_with_options(data_type.clone(), ascending)
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
    )
}

/// The bytes of each value of text or binary.
fn bytes_of(column: &ArrayRef) -> Box<dyn Iterator<Item = Option<&[u8]>> + '_> {
    fn of_text(text: Option<&str>) -> Option<&[u8]> {
        text.map(str::as_bytes)
    }
    match column.data_type() {
        DataType::Utf8 => Box::new(column.as_string::<i32>().iter().map(of_text)),
        DataType::LargeUtf8 => Box::new(column.as_string::<i64>().iter().map(of_text)),
        DataType::Utf8View => Box::new(column.as_string_view().iter().map(of_text)),
        DataType::Binary => Box::new(column.as_binary::<i32>().iter()),
        DataType::LargeBinary => Box::new(column.as_binary::<i64>().iter()),
        DataType::BinaryView => Box::new(column.as_binary_view().iter()),
        _ => Box::new(column.as_fixed_size_binary().iter()),
    }
}

impl Ids {
    /// Whether values of the type can be numbered and compared.
    pub(crate) fn supports(data_type: &DataType) -> bool {
        RowConverter::supports_fields(&[field(data_type)])
    }

    pub(super) fn try_new(data_type: &DataType) -> Result<Self> {
        if let Some(words) = WordIds::of(data_type) {
            return Ok(Self::Words(words));
        }
        let (data_type, bytes) = (data_type.clone(), ByteIds::default());
        Ok(match is_bytes(&data_type) {
            true => Self::Bytes(data_type, bytes),
            false => {
                let converter = RowConverter::new(vec![field(&data_type)])?;
                Self::Rows(data_type, converter, bytes)
            }
        })
    }

    /// How many distinct values there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Bytes(_, bytes) | Self::Rows(_, _, bytes) => bytes.len(),
        }
    }

    /// Whether the value of `a` is before that of `b` in the order of the type.
    pub(super) fn is_less(&self, a: u32, b: u32) -> bool {
        match self {
            Self::Words(words) => words.is_less(a, b),
            Self::Bytes(_, bytes) | Self::Rows(_, _, bytes) => bytes.value(a) < bytes.value(b),
        }
    }

    /// Appends the number of each value of a column, [`NO_ID`] for a NULL. New values get the next numbers.
    ///
    /// # Errors
    /// The memory pool's, and if there are more values than numbers.
    pub(super) fn number(
        &mut self,
        column: &ArrayRef,
        memory: &TableMemory,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        match self {
            Self::Words(words) => words.number(column, memory, numbers)?,
            Self::Bytes(_, bytes) => {
                for value in bytes_of(column) {
                    numbers.push(match value {
                        Some(value) => bytes.number(value, memory)?,
                        None => NO_ID,
                    });
                }
            }
            Self::Rows(_, converter, bytes) => {
                let nulls = column.logical_nulls();
                // The two zeros are one value, as for GROUP BY.
                let rows = converter.convert_columns(&[normalize_float_zero(column)])?;
                for (at, row) in rows.iter().enumerate() {
                    let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
                    numbers.push(match is_null {
                        true => NO_ID,
                        false => bytes.number(row.data(), memory)?,
                    });
                }
            }
        }
        Ok(())
    }

    /// Drops what only numbering needs.
    pub(super) fn drop_table(&mut self, memory: &TableMemory) {
        match self {
            Self::Words(words) => words.drop_table(memory),
            Self::Bytes(_, bytes) | Self::Rows(_, _, bytes) => bytes.drop_table(memory),
        }
    }

    /// The values of numbers.
    pub(super) fn values(&self, numbers: impl Iterator<Item = u32>) -> Result<ArrayRef> {
        let (values, data_type): (ArrayRef, _) = match self {
            Self::Words(words) => return words.values(numbers),
            Self::Bytes(data_type, bytes) => {
                let values = numbers.map(|number| bytes.value(number));
                let values = LargeBinaryArray::from_iter_values(values);
                (Arc::new(values), data_type)
            }
            Self::Rows(data_type, converter, bytes) => {
                let parser = converter.parser();
                let rows = numbers.map(|number| parser.parse(bytes.value(number)));
                let mut columns = converter.convert_rows(rows)?;
                (columns.swap_remove(0), data_type)
            }
        };
        // Rows hold no dictionaries, those inside of nested types neither.
        Ok(match values.data_type() == data_type {
            true => values,
            false => cast(&values, data_type)?,
        })
    }
}
