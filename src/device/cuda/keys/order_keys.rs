//! Order keys (`kernels/keys/keys.cu`): words of 64 bits that compare as the values do. They equal the host's words,
//! for the types that are resident on the GPU.

use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::keys::key_column::KeySource;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::keys::{KeyDomain, Keys};
use crate::error::{BowtieError, Result};

/// A kernel that makes keys of values: values, keys, and their number.
type KeyKernel = Kernel<(U64, U64, U32)>;

/// The kernel for the natural keys of a type; `None` for a type without keys, or whose keys depend on other values.
fn natural_kernel(data_type: &DataType) -> Option<KeyKernel> {
    use DataType::*;
    Some(match data_type {
        Boolean => kernels::KEYS_BOOL,
        Int8 => kernels::KEYS_SIGNED8,
        Int16 => kernels::KEYS_SIGNED16,
        Int32 | Date32 | Time32(_) | Decimal32(..) | Interval(IntervalUnit::YearMonth) => {
            kernels::KEYS_SIGNED32
        }
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            kernels::KEYS_SIGNED64
        }
        UInt8 => kernels::KEYS_UNSIGNED8,
        UInt16 => kernels::KEYS_UNSIGNED16,
        UInt32 => kernels::KEYS_UNSIGNED32,
        UInt64 => kernels::KEYS_UNSIGNED64,
        Float16 => kernels::KEYS_FLOAT16,
        Float32 => kernels::KEYS_FLOAT32,
        Float64 => kernels::KEYS_FLOAT64,
        Interval(IntervalUnit::DayTime) => kernels::KEYS_DAY_TIME,
        _ => return None,
    })
}

fn of_another_domain(data_type: &DataType) -> BowtieError {
    BowtieError::Internal(format!("{data_type} in a domain of other keys"))
}

impl Stream {
    /// [`KeyPrimitives::are_ordered`](crate::device::primitives::keys::KeyPrimitives::are_ordered).
    pub(crate) fn are_ordered(
        self: &Arc<Self>,
        low: &Keys,
        high: &Keys,
        strictly: bool,
    ) -> Result<bool> {
        let rows = low.rows();
        let found = self.zeroed(4, "order of keys")?;
        let args = (
            memory(&low.values)?.into(),
            valid_memory(low.valid.as_ref())?.into(),
            memory(&high.values)?.into(),
            valid_memory(high.valid.as_ref())?.into(),
            u32::from(strictly).into(),
            (&found).into(),
            (rows as u32).into(),
        );
        // SAFETY: both keys and their validity are by row, of the same rows; `found` is a word.
        unsafe { self.launch(kernels::KEYS_DISORDERED, Shape::rows(rows), &args)? };
        let mut word = [0; 4];
        self.read_few(&mut word, &found, 0)?;
        Ok(word == [0; 4])
    }

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
        match (domain, &values.data_type) {
            (KeyDomain::Natural, data_type) => {
                let kernel = natural_kernel(data_type);
                let kernel = kernel.ok_or_else(|| of_another_domain(data_type))?;
                self.keys_by(kernel, values, rows)
            }
            (KeyDomain::Offset { low, high }, DataType::Decimal128(..)) => {
                self.offset_keys([*low, *high], values, rows)
            }
            (_, data_type) => Err(of_another_domain(data_type)),
        }
    }

    /// Keys of floats in IEEE 754 total order, in which the two zeros differ, as MIN and MAX need it; `None` for other
    /// types.
    pub(crate) fn total_keys(
        self: &Arc<Self>,
        values: &Values,
        rows: usize,
    ) -> Result<Option<Keys>> {
        let kernel = match values.data_type {
            DataType::Float16 => kernels::KEYS_TOTAL16,
            DataType::Float32 => kernels::KEYS_TOTAL32,
            DataType::Float64 => kernels::KEYS_TOTAL64,
            _ => return Ok(None),
        };
        self.keys_by(kernel, values, rows).map(Some)
    }

    /// Words in Arrow's order of the values, in which the zeros of floats differ; `None` for values of more than 64 bits.
    pub(crate) fn sort_words(
        self: &Arc<Self>,
        values: &Values,
        rows: usize,
    ) -> Result<Option<Buffer<u64>>> {
        if let Some(keys) = self.total_keys(values, rows)? {
            return Ok(Some(keys.values));
        }
        let kernel = natural_kernel(&values.data_type);
        let keys = kernel.map(|kernel| self.keys_by(kernel, values, rows));
        Ok(keys.transpose()?.map(|keys| keys.values))
    }

    /// Keys by a kernel.
    fn keys_by(self: &Arc<Self>, kernel: KeyKernel, values: &Values, rows: usize) -> Result<Keys> {
        let shape = match values.data_type {
            DataType::Boolean => Shape::rows(rows),
            _ => Shape::blocks_of(rows, 2048, 256),
        };
        let out = self.alloc(rows * 8, "order keys")?;
        let args = ((&values.values).into(), (&out).into(), (rows as u32).into());
        // SAFETY: a column of this type holds `rows` values of the width that the kernel reads; `out` holds `rows`
        // words.
        unsafe { self.launch(kernel, shape, &args)? };
        self.keys_in(out, values, rows)
    }

    /// Keys of decimals of 128 bits as distances from the least; `low` and `high` are the domain's.
    fn offset_keys(
        self: &Arc<Self>,
        [low, high]: [i128; 2],
        values: &Values,
        rows: usize,
    ) -> Result<Keys> {
        let halves = |word: i128| [word as u64, (word >> 64) as u64].map(U64::from);
        let ([low, low_upper], [high, high_upper]) = (halves(low), halves(high));
        let out = self.alloc(rows * 8, "order keys")?;
        let args = (
            (&values.values).into(),
            low,
            low_upper,
            high,
            high_upper,
            (&out).into(),
            (rows as u32).into(),
        );
        // SAFETY: the column holds `rows` values of 16 bytes; `out` holds `rows` words.
        unsafe { self.launch(kernels::KEYS_OFFSET128, Shape::rows(rows), &args)? };
        self.keys_in(out, values, rows)
    }

    /// Words as the keys of a column.
    fn keys_in(self: &Arc<Self>, words: Memory, values: &Values, rows: usize) -> Result<Keys> {
        Ok(Keys {
            values: Buffer::cuda(words, rows),
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
