//! [`Encoding`]: what the codes of a stored column stand for.
//!
//! ```text
//! dates, numbers, decimals   offset       value = least + code    codes of 1, 2, 4 or 8 bytes, NULL as in the column
//! text of few values         dictionary   value = values[code]    codes of 1 or 2 bytes, NULL is the last value
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use crate::device::data::block_extents::BlockExtents;
use crate::device::data::column::Column;
use crate::ir::program::Kind;

/// What the codes of a column stand for. Different codes stand for different values.
#[derive(Debug, Clone)]
pub(crate) struct Encoding {
    /// The unsigned kind of the codes.
    pub(crate) code: Kind,
    /// All codes are below it.
    pub(crate) bound: u64,
    /// Whether rows may be NULL. In a dictionary NULL has a code.
    pub(crate) nullable: bool,
    pub(crate) values: CodedValues,
}

/// The values of codes.
#[derive(Debug, Clone)]
pub(crate) enum CodedValues {
    /// Integers or decimals of `data_type`: `least` more than the code.
    Offset {
        data_type: DataType,
        least: i128,
    },
    Dictionary(Dictionary),
}

/// The values of codes: each once, ascending, with NULL at the end if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Dictionary {
    pub(crate) on_host: ArrayRef,
    pub(crate) on_device: Arc<Column>,
}

/// A column in host memory as codes.
#[derive(Debug)]
pub(crate) struct EncodedArrays {
    /// The codes of each part of the column, of one unsigned type.
    pub(crate) codes: Vec<ArrayRef>,
    pub(crate) code: Kind,
    /// All codes are below it.
    pub(crate) bound: u64,
    /// Of offsets, if there are several blocks.
    pub(crate) blocks: Option<BlockExtents>,
    pub(crate) values: ArrayValues,
}

/// [`CodedValues`] in host memory.
#[derive(Debug, Clone)]
pub(crate) enum ArrayValues {
    Offset { data_type: DataType, least: i128 },
    Dictionary(ArrayRef),
}

impl Encoding {
    /// Whether equal codes stand for equal values.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let same_values = match (&self.values, &other.values) {
            (
                CodedValues::Offset { data_type, least },
                CodedValues::Offset {
                    data_type: other_type,
                    least: other_least,
                },
            ) => (data_type, least) == (other_type, other_least),
            (CodedValues::Dictionary(one), CodedValues::Dictionary(other)) => {
                Arc::ptr_eq(&one.on_host, &other.on_host)
            }
            _ => false,
        };
        same_values && self.code == other.code
    }

    /// The encoding of rows of both, which [are the same](Self::is_same_as).
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self {
            bound: self.bound.max(other.bound),
            nullable: self.nullable || other.nullable,
            ..self.clone()
        }
    }

    /// The mean bytes of a value.
    pub(crate) fn value_bytes(&self) -> u64 {
        match &self.values {
            CodedValues::Offset { data_type, .. } => {
                data_type.primitive_width().unwrap_or(8) as u64
            }
            CodedValues::Dictionary(Dictionary { on_host, on_device }) => {
                on_device.bytes().div_ceil(on_host.len().max(1) as u64)
            }
        }
    }

    /// Its name in `bowtie_cache()`.
    pub(crate) fn name(&self) -> String {
        named(
            self.code,
            match &self.values {
                CodedValues::Offset { .. } => None,
                CodedValues::Dictionary(dictionary) => Some(dictionary.on_host.len()),
            },
        )
    }
}

impl ArrayValues {
    /// As [`Encoding::name`], for codes of this kind.
    pub(crate) fn name(&self, code: Kind) -> String {
        named(
            code,
            match self {
                Self::Offset { .. } => None,
                Self::Dictionary(values) => Some(values.len()),
            },
        )
    }
}

/// `values`: the number of a dictionary's values; `None` of offsets.
fn named(code: Kind, values: Option<usize>) -> String {
    let bits = match code {
        Kind::U8 => 8,
        Kind::U16 => 16,
        Kind::U32 => 32,
        _ => 64,
    };
    match values {
        None => format!("offset of {bits} bits"),
        Some(values) => format!("{values} values, codes of {bits} bits"),
    }
}
