//! Order keys (`kernels/keys/keys.cu`): words of 64 bits that compare as the values do. They equal the host's words,
//! for the types that are resident on the GPU. Decimals of 128 bits have their distances from the base's least value where these have 64 bits.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::rows;
use crate::device::cuda::keys::key_column::KeySource;
use crate::device::cuda::keys::ranks;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::error::{BowtieError, Result};
use crate::ir::physical_type::{KeyOrder, Stored, TypeRow};

/// A kernel that makes keys of values: values, keys, and their number.
type KeyKernel = Kernel<(U64, U64, U32)>;

/// The kernel for the natural keys of a type; `None` for a type without keys, or whose keys depend on other values.
fn natural_kernel(data_type: &DataType) -> Option<KeyKernel> {
    let row = TypeRow::of(data_type);
    if row.order != Some(KeyOrder::Natural) {
        return None;
    }
    Some(match row.stored {
        Stored::Bit => kernels::KEYS_BOOL,
        Stored::I8 => kernels::KEYS_SIGNED8,
        Stored::I16 => kernels::KEYS_SIGNED16,
        Stored::I32 => kernels::KEYS_SIGNED32,
        Stored::I64 => kernels::KEYS_SIGNED64,
        Stored::U8 => kernels::KEYS_UNSIGNED8,
        Stored::U16 => kernels::KEYS_UNSIGNED16,
        Stored::U32 => kernels::KEYS_UNSIGNED32,
        Stored::U64 => kernels::KEYS_UNSIGNED64,
        Stored::F16 => kernels::KEYS_FLOAT16,
        Stored::F32 => kernels::KEYS_FLOAT32,
        Stored::F64 => kernels::KEYS_FLOAT64,
        Stored::DayTime => kernels::KEYS_DAY_TIME,
        Stored::I128
        | Stored::I256
        | Stored::MonthDayNano
        | Stored::Bytes
        | Stored::Text
        | Stored::Views
        | Stored::Dictionary
        | Stored::OnHost => return None,
    })
}

fn of_another_domain(data_type: &DataType) -> BowtieError {
    BowtieError::Internal(format!("{data_type} in a domain of other keys"))
}

/// [`KeyPrimitives::are_ordered`](crate::device::primitives::keys::KeyPrimitives::are_ordered).
pub(crate) fn are_ordered(
    stream: &Arc<Stream>,
    low: &Keys,
    high: &Keys,
    strictly: bool,
) -> Result<bool> {
    let rows = low.rows();
    let found = stream.zeroed(4, "order of keys")?;
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
    unsafe { stream.launch(kernels::KEYS_DISORDERED, Shape::rows(rows), &args)? };
    let mut word = [0; 4];
    stream.read_few(&mut word, &found, 0)?;
    Ok(word == [0; 4])
}

/// The keys of a base column, and their domain. `words`: those of values that compare byte by byte.
pub(crate) fn order_keys(
    stream: &Arc<Stream>,
    column: KeySource<'_>,
    words: usize,
    rows: usize,
) -> Result<(Keys, KeyDomain)> {
    match (column, column.bytes()) {
        (_, Some(bytes)) => ranks::text_keys(stream, bytes, words, rows),
        (KeySource::Values(values), None) => match natural_kernel(&values.data_type) {
            Some(_) => {
                let domain = KeyDomain::Natural;
                Ok((order_keys_in(stream, &domain, column, rows)?, domain))
            }
            None => match offset_domain(stream, values, rows)? {
                Some(domain) => Ok((order_keys_in(stream, &domain, column, rows)?, domain)),
                None => ranks::wide_keys(stream, values, rows),
            },
        },
        (KeySource::Bytes(_), None) => {
            Err(BowtieError::Internal("a key column without values".into()))
        }
    }
}

/// The keys of another column in a domain.
pub(crate) fn order_keys_in(
    stream: &Arc<Stream>,
    domain: &KeyDomain,
    column: KeySource<'_>,
    rows: usize,
) -> Result<Keys> {
    if let KeyDomain::Ranked(ranks) = domain {
        return ranks::ranked_keys(stream, ranks.0.get()?, column, rows);
    }
    let KeySource::Values(values) = column else {
        return Err(BowtieError::Internal("text in a domain of numbers".into()));
    };
    match (domain, &values.data_type) {
        (KeyDomain::Natural, data_type) => {
            let kernel = natural_kernel(data_type);
            let kernel = kernel.ok_or_else(|| of_another_domain(data_type))?;
            keys_by(stream, kernel, values, rows)
        }
        (KeyDomain::Offset { low, high }, DataType::Decimal128(..)) => {
            offset_keys(stream, [*low, *high], values, rows)
        }
        (_, data_type) => Err(of_another_domain(data_type)),
    }
}

/// Keys of floats in IEEE 754 total order, in which the two zeros differ, as MIN and MAX need it; `None` for other
/// types.
pub(crate) fn total_keys(
    stream: &Arc<Stream>,
    values: &Values,
    rows: usize,
) -> Result<Option<Keys>> {
    let kernel = match values.data_type {
        DataType::Float16 => kernels::KEYS_TOTAL16,
        DataType::Float32 => kernels::KEYS_TOTAL32,
        DataType::Float64 => kernels::KEYS_TOTAL64,
        _ => return Ok(None),
    };
    keys_by(stream, kernel, values, rows).map(Some)
}

/// Words in Arrow's order of the values, in which the zeros of floats differ; `None` for values of more than 64 bits.
pub(crate) fn sort_words(
    stream: &Arc<Stream>,
    values: &Values,
    rows: usize,
) -> Result<Option<Buffer<u64>>> {
    if let Some(keys) = total_keys(stream, values, rows)? {
        return Ok(Some(keys.values));
    }
    let kernel = natural_kernel(&values.data_type);
    let keys = kernel.map(|kernel| keys_by(stream, kernel, values, rows));
    Ok(keys.transpose()?.map(|keys| keys.values))
}

/// Keys by a kernel.
fn keys_by(stream: &Arc<Stream>, kernel: KeyKernel, values: &Values, rows: usize) -> Result<Keys> {
    let shape = match values.data_type {
        DataType::Boolean => Shape::rows(rows),
        _ => Shape::blocks_of(rows, 2048, 256),
    };
    let out = stream.alloc(rows * 8, "order keys")?;
    let args = ((&values.values).into(), (&out).into(), (rows as u32).into());
    // SAFETY: a column of this type holds `rows` values of the width that the kernel reads; `out` holds `rows`
    // words.
    unsafe { stream.launch(kernel, shape, &args)? };
    keys_in(stream, out, values, rows)
}

/// The domain of decimals of 128 bits whose distances from the least have 64 bits; `None` for other values.
fn offset_domain(stream: &Arc<Stream>, values: &Values, rows: usize) -> Result<Option<KeyDomain>> {
    if TypeRow::of(&values.data_type).order != Some(KeyOrder::Distance) {
        return Ok(None);
    }
    let (low, high) = extremes(stream, values, rows)?;
    Ok(KeyDomain::offset(low, high))
}

/// Keys of decimals of 128 bits as distances from the least; `low` and `high` are the domain's.
fn offset_keys(
    stream: &Arc<Stream>,
    [low, high]: [i128; 2],
    values: &Values,
    rows: usize,
) -> Result<Keys> {
    let halves = |word: i128| [word as u64, (word >> 64) as u64].map(U64::from);
    let ([low, low_upper], [high, high_upper]) = (halves(low), halves(high));
    let out = stream.alloc(rows * 8, "order keys")?;
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
    unsafe { stream.launch(kernels::KEYS_OFFSET128, Shape::rows(rows), &args)? };
    keys_in(stream, out, values, rows)
}

/// Words as the keys of a column.
fn keys_in(stream: &Arc<Stream>, words: Memory, values: &Values, rows: usize) -> Result<Keys> {
    Ok(Keys {
        values: Buffer::cuda(words, rows),
        valid: rows::copy_validity(stream, values.valid.as_ref(), rows)?,
    })
}

/// The least and the greatest value of 128 bits that is not NULL; 0 and 0 when all are.
fn extremes(stream: &Arc<Stream>, values: &Values, rows: usize) -> Result<(i128, i128)> {
    if rows == 0 {
        return Ok((0, 0));
    }
    let shape = stream.strips(rows.div_ceil(4));
    let of_blocks = stream.alloc(shape.blocks as usize * 32, "a column's extremes")?;
    let all = stream.alloc(32, "a column's extremes")?;
    let args = (
        (&values.values).into(),
        values.valid.as_ref().into(),
        (&of_blocks).into(),
        (rows as u32).into(),
    );
    // SAFETY: the column holds `rows` values of 16 bytes, and a bit for each; `of_blocks` 32 bytes for each block.
    unsafe { stream.launch(kernels::KEYS_EXTREMES128, shape, &args)? };
    let args = ((&of_blocks).into(), (&all).into(), shape.blocks.into());
    // SAFETY: the blocks' extremes were written before; `all` holds 32 bytes.
    unsafe {
        stream.launch(
            kernels::KEYS_EXTREMES128_TOTAL,
            Shape::blocks_of(1, 1, 256),
            &args,
        )?
    };
    let mut bytes = [[0; 16]; 2];
    stream.read_few(bytes.as_flattened_mut(), &all, 0)?;
    let [low, high] = bytes.map(i128::from_le_bytes);
    match low <= high {
        true => Ok((low, high)),
        // Without a valid value the initial extremes remain, the least above the greatest.
        false => Ok((0, 0)),
    }
}
