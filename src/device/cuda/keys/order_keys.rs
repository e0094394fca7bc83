//! Order keys (`kernels/keys/keys.cu`): words of 64 bits that compare as the values do. They equal the host's words,
//! for the types that are resident on the GPU.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::keys::key_column::KeySource;
use crate::device::cuda::runtime::launch::{Arg, Shape};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::keys::{KeyDomain, Keys};
use crate::error::{BowtieError, Result};

/// The kernel for the natural keys of a type; `None` for a type without keys, or whose keys depend on other values.
fn natural_kernel(data_type: &DataType) -> Option<&'static str> {
    use DataType::*;
    Some(match data_type {
        Boolean => "keys_bool",
        Int8 => "keys_signed8",
        Int16 => "keys_signed16",
        Int32 | Date32 | Time32(_) | Decimal32(..) | Interval(IntervalUnit::YearMonth) => {
            "keys_signed32"
        }
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => "keys_signed64",
        UInt8 => "keys_unsigned8",
        UInt16 => "keys_unsigned16",
        UInt32 => "keys_unsigned32",
        UInt64 => "keys_unsigned64",
        Float16 => "keys_float16",
        Float32 => "keys_float32",
        Float64 => "keys_float64",
        Interval(IntervalUnit::DayTime) => "keys_day_time",
        _ => return None,
    })
}

impl Stream {
    /// The keys of a base column, and their domain. `words`: those of values that compare byte by byte.
    pub(crate) fn order_keys(
        self: &Arc<Self>,
        column: KeySource<'_>,
        words: usize,
        rows: usize,
    ) -> Result<(Keys, KeyDomain)> {
        match (column, column.bytes()) {
            (_, Some(bytes)) => self.text_keys(bytes, words, rows),
            (KeySource::Values(values), None) => match natural_kernel(&values.data_type) {
                Some(_) => {
                    let domain = KeyDomain::Natural;
                    Ok((self.order_keys_in(&domain, column, rows)?, domain))
                }
                None => self.wide_keys(values, rows),
            },
            (KeySource::Bytes(_), None) => {
                Err(BowtieError::Internal("a key column without values".into()))
            }
        }
    }

    /// The keys of another column in a domain.
    pub(crate) fn order_keys_in(
        self: &Arc<Self>,
        domain: &KeyDomain,
        column: KeySource<'_>,
        rows: usize,
    ) -> Result<Keys> {
        if let KeyDomain::Ranked(ranks) = domain {
            return self.ranked_keys(ranks.0.get()?, column, rows);
        }
        let KeySource::Values(values) = column else {
            return Err(BowtieError::Internal("text in a domain of numbers".into()));
        };
        let mut args: Vec<Arg> = vec![(&values.values).into()];
        let kernel = match (domain, &values.data_type) {
            (KeyDomain::Natural, data_type) => natural_kernel(data_type),
            (KeyDomain::Offset { low, high }, DataType::Decimal128(..)) => {
                for word in [*low, *high] {
                    args.extend([Arg::from(word as u64), Arg::from((word >> 64) as u64)]);
                }
                Some("keys_offset128")
            }
            _ => None,
        };
        let kernel = kernel.ok_or_else(|| {
            BowtieError::Internal(format!("{} in a domain of other keys", values.data_type))
        })?;
        self.keys_by(kernel, args, values, rows)
    }

    /// Keys of floats in IEEE 754 total order, in which the two zeros differ, as MIN and MAX need it; `None` for other
    /// types.
    pub(crate) fn total_keys(
        self: &Arc<Self>,
        values: &Values,
        rows: usize,
    ) -> Result<Option<Keys>> {
        let kernel = match values.data_type {
            DataType::Float16 => "keys_total16",
            DataType::Float32 => "keys_total32",
            DataType::Float64 => "keys_total64",
            _ => return Ok(None),
        };
        let args = vec![(&values.values).into()];
        self.keys_by(kernel, args, values, rows).map(Some)
    }

    /// Keys by a kernel. `args` are its first arguments; the output and the number of rows follow.
    fn keys_by(
        self: &Arc<Self>,
        kernel: &'static str,
        mut args: Vec<Arg>,
        values: &Values,
        rows: usize,
    ) -> Result<Keys> {
        let shape = match kernel {
            "keys_bool" | "keys_offset128" => Shape::rows(rows),
            _ => Shape::blocks_of(rows, 2048, 256),
        };
        let out = self.alloc(rows * 8, "order keys")?;
        args.extend([Arg::from(&out), Arg::from(rows as u32)]);
        // SAFETY: a column of this type holds `rows` values of the width that the kernel reads; `out` holds `rows`
        // words.
        unsafe { self.launch(kernel, shape, &args)? };
        Ok(Keys {
            values: Buffer::cuda(out, rows),
            valid: self.valid_of(values.valid.as_ref(), rows)?,
        })
    }

    /// A copy of a column's validity bitmap for its keys.
    pub(crate) fn valid_of(
        self: &Arc<Self>,
        valid: Option<&Memory>,
        rows: usize,
    ) -> Result<Option<Bits>> {
        match valid {
            Some(valid) => Ok(Some(Bits::cuda(self.bits_and(valid, valid, rows)?))),
            None => Ok(None),
        }
    }
}
