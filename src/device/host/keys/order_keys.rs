//! Order keys: every orderable Arrow type as `u64` words in DataFusion's order.
//!
//! Narrow types map bit by bit ("natural"). Decimals of 128 bits are offset from the base column's minimum if its
//! values span less than 64 bits. All other types are ranked: the base column's distinct values are sorted, the i-th
//! becomes `2 i + 1`, and a value of another column that equals none becomes the even number between its neighbours.
//! Hence keys of a ranked domain compare base with other, never other with other.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::row::{OwnedRow, RowConverter, SortField};
use half::f16;
use rayon::prelude::*;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::keys::{KeyDomain, Keys};
use crate::device::data::opaque::Opaque;
use crate::device::host::natives::natives;
use crate::error::{BowtieError, Result};
use crate::ir::physical_type::{KeyOrder, Stored, TypeRow};

const SIGN: u64 = 1 << 63;

/// The sorted distinct values of a base column, in Arrow's row format.
#[derive(Debug)]
pub(crate) struct Ranks {
    converter: RowConverter,
    distinct: Vec<OwnedRow>,
    _lease: Lease,
}

/// The order keys of `base` and their domain.
pub(crate) fn order_keys(budget: &Arc<Budget>, base: &Column) -> Result<(Keys, KeyDomain)> {
    let array = plain_values(base.on_host()?)?;
    if let Some(keys) = natural(budget, &array)? {
        return Ok((keys, KeyDomain::Natural));
    }
    if let Some(values) = array.as_primitive_opt::<Decimal128Type>() {
        let (low, high) = match (arrow::compute::min(values), arrow::compute::max(values)) {
            (Some(low), Some(high)) => (low, high),
            _ => (0, 0),
        };
        if let Some(domain) = KeyDomain::offset(low, high) {
            return Ok((order_keys_in(budget, &domain, base)?, domain));
        }
    }
    rank(budget, &array)
}

/// The order keys of another column in `domain`.
pub(crate) fn order_keys_in(
    budget: &Arc<Budget>,
    domain: &KeyDomain,
    column: &Column,
) -> Result<Keys> {
    let array = plain_values(column.on_host()?)?;
    match domain {
        KeyDomain::Natural => natural(budget, &array)?.ok_or_else(|| {
            BowtieError::Internal(format!("{} has no natural order key", array.data_type()))
        }),
        KeyDomain::Offset { low, high } => {
            let values = array.as_primitive_opt::<Decimal128Type>().ok_or_else(|| {
                BowtieError::Internal(format!("{} among decimal keys", array.data_type()))
            })?;
            let word = |v: i128| match v {
                v if v < *low => 0,
                v if v > *high => (high - low) as u64 + 2,
                v => (v - low) as u64 + 1,
            };
            keys(budget, &array, values.values().par_iter().map(|v| word(*v)))
        }
        KeyDomain::Ranked(ranks) => {
            let ranks = ranks.0.get::<Ranks>()?;
            let lease = lease_keys(budget, array.len())?;
            let rows = ranks.converter.convert_columns(&[Arc::clone(&array)])?;
            let words: Vec<u64> = (0..rows.num_rows())
                .into_par_iter()
                .map(|i| {
                    let row = rows.row(i);
                    let at = ranks.distinct.partition_point(|d| d.row() < row);
                    let equal = ranks
                        .distinct
                        .get(at)
                        .is_some_and(|d| d.row().cmp(&row) == Ordering::Equal);
                    2 * at as u64 + u64::from(equal)
                })
                .collect();
            Ok(Keys {
                values: Buffer::host(words, lease),
                valid: validity(&array).map(Bits::Host),
            })
        }
    }
}

/// Natural keys; `None` for types without them.
pub(crate) fn natural(budget: &Arc<Budget>, array: &ArrayRef) -> Result<Option<Keys>> {
    macro_rules! words {
        ($native:ty, $word:expr) => {{
            let values = natives::<$native>(array)?.par_iter();
            keys(budget, array, values.map(|v| $word(*v)))?
        }};
    }
    let row = TypeRow::of(array.data_type());
    if row.order != Some(KeyOrder::Natural) {
        return Ok(None);
    }
    Ok(Some(match row.stored {
        Stored::Bit => {
            let values = array.as_boolean().values();
            let words = (0..values.len()).into_par_iter();
            keys(budget, array, words.map(|row| u64::from(values.value(row))))?
        }
        Stored::I8 => words!(i8, |v: i8| i64::from(v) as u64 ^ SIGN),
        Stored::I16 => words!(i16, |v: i16| i64::from(v) as u64 ^ SIGN),
        Stored::I32 => words!(i32, |v: i32| i64::from(v) as u64 ^ SIGN),
        Stored::I64 => words!(i64, |v: i64| v as u64 ^ SIGN),
        Stored::U8 => words!(u8, u64::from),
        Stored::U16 => words!(u16, u64::from),
        Stored::U32 => words!(u32, u64::from),
        Stored::U64 => words!(u64, |v: u64| v),
        Stored::F16 => words!(f16, float16_word),
        Stored::F32 => words!(f32, |v: f32| float32_word(v)),
        Stored::F64 => words!(f64, float_word),
        Stored::DayTime => {
            let half_word = |v: i32| u64::from(v as u32 ^ (1 << 31));
            words!(IntervalDayTime, |v: IntervalDayTime| half_word(v.days)
                << 32
                | half_word(v.milliseconds))
        }
        Stored::I128
        | Stored::I256
        | Stored::MonthDayNano
        | Stored::Bytes
        | Stored::Text
        | Stored::Views
        | Stored::Dictionary
        | Stored::OnHost => return Ok(None),
    }))
}

/// A word in IEEE 754 total order, except that −0.0 is 0.0, as in DataFusion's comparisons.
#[inline(always)]
pub(crate) fn float_word(value: f64) -> u64 {
    total_word(if value == 0.0 { 0.0 } else { value })
}

/// The value of a [`float_word`].
#[inline(always)]
pub(crate) fn float_of_word(word: u64) -> f64 {
    f64::from_bits(if word & SIGN == 0 { !word } else { word ^ SIGN })
}

/// As [`float_word`], but without widening: a conversion would change the payload of a NaN.
#[inline(always)]
pub(crate) fn float32_word(value: f32) -> u64 {
    total_word32(if value == 0.0 { 0.0 } else { value })
}

pub(crate) fn float16_word(value: f16) -> u64 {
    total_word16(match value == f16::ZERO {
        true => f16::ZERO,
        false => value,
    })
}

fn total_word(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn total_word32(value: f32) -> u64 {
    let (bits, sign) = (value.to_bits(), 1u32 << 31);
    u64::from(if bits & sign == 0 { bits | sign } else { !bits })
}

fn total_word16(value: f16) -> u64 {
    let (bits, sign) = (value.to_bits(), 1u16 << 15);
    u64::from(if bits & sign == 0 { bits | sign } else { !bits })
}

/// Keys of floats in IEEE 754 total order, where −0.0 is less than 0.0: the order of MIN and MAX. `None` for other
/// types, whose equal values are identical.
pub(crate) fn total(budget: &Arc<Budget>, array: &ArrayRef) -> Result<Option<Keys>> {
    macro_rules! words {
        ($t:ty, $word:expr) => {{
            let values = array.as_primitive::<$t>().values();
            Ok(Some(keys(
                budget,
                array,
                values.par_iter().map(|v| $word(*v)),
            )?))
        }};
    }
    match array.data_type() {
        DataType::Float16 => words!(Float16Type, total_word16),
        DataType::Float32 => words!(Float32Type, total_word32),
        DataType::Float64 => words!(Float64Type, total_word),
        _ => Ok(None),
    }
}

fn rank(budget: &Arc<Budget>, array: &ArrayRef) -> Result<(Keys, KeyDomain)> {
    let lease = lease_keys(budget, array.len())?;
    let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
    let rows = converter.convert_columns(&[Arc::clone(array)])?;
    let rows_lease = budget.lease(rows.size() as u64, "ranks of a key column")?;
    let valid = validity(array);
    let mut order: Vec<u32> = match &valid {
        Some(valid) => valid.set_indices().map(|i| i as u32).collect(),
        None => (0..array.len() as u32).collect(),
    };
    order.par_sort_unstable_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
    let mut words = vec![0u64; array.len()];
    let mut distinct: Vec<OwnedRow> = Vec::new();
    for id in order {
        let row = rows.row(id as usize);
        if distinct.last().is_none_or(|last| last.row() != row) {
            distinct.push(row.owned());
        }
        words[id as usize] = 2 * (distinct.len() as u64 - 1) + 1;
    }
    let keys = Keys {
        values: Buffer::host(words, lease),
        valid: valid.map(Bits::Host),
    };
    let ranks = Ranks {
        converter,
        distinct,
        _lease: rows_lease,
    };
    Ok((
        keys,
        KeyDomain::Ranked(crate::device::data::keys::Ranks(Opaque::new(ranks))),
    ))
}

/// Values that one task maps, at least.
const TASK_VALUES: usize = 1 << 14;

fn keys(
    budget: &Arc<Budget>,
    array: &ArrayRef,
    words: impl IndexedParallelIterator<Item = u64>,
) -> Result<Keys> {
    let lease = lease_keys(budget, array.len())?;
    let words: Vec<u64> = words.with_min_len(TASK_VALUES).collect();
    Ok(Keys {
        values: Buffer::host(words, lease),
        valid: validity(array).map(Bits::Host),
    })
}

fn lease_keys(budget: &Arc<Budget>, rows: usize) -> Result<Lease> {
    budget.lease(rows as u64 * 8, "order keys")
}

/// A bit for each row, set where it is not NULL; `None` if no row is NULL.
pub(crate) fn validity(array: &ArrayRef) -> Option<BooleanBuffer> {
    array
        .logical_nulls()
        .filter(|nulls| nulls.null_count() > 0)
        .map(|nulls| nulls.inner().clone())
}

/// Order keys as slices in host memory.
#[derive(Clone, Copy)]
pub(crate) struct HostKeys<'a> {
    pub(crate) words: &'a [u64],
    valid: Option<&'a BooleanBuffer>,
}

impl<'a> HostKeys<'a> {
    /// # Errors
    /// If the keys belong to another device.
    pub(crate) fn new(keys: &'a Keys) -> Result<Self> {
        Ok(Self {
            words: keys.values.on_host()?,
            valid: keys.valid.as_ref().map(Bits::on_host).transpose()?,
        })
    }

    /// Whether the row's value is not NULL.
    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.valid.is_none_or(|valid| valid.value(row))
    }
}

/// Decodes a dictionary; returns any other array unchanged.
pub(crate) fn plain_values(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => Ok(cast(array, values)?),
        _ => Ok(Arc::clone(array)),
    }
}

/// The natural keys of a column as an Arrow array with its NULLs, for conversion to row format.
pub(crate) fn natural_array(budget: &Arc<Budget>, array: &ArrayRef) -> Result<Option<ArrayRef>> {
    let Some(keys) = natural(budget, array)? else {
        return Ok(None);
    };
    let nulls = match &keys.valid {
        Some(valid) => Some(NullBuffer::new(valid.on_host()?.clone())),
        None => None,
    };
    let words = UInt64Array::new(keys.values.on_host()?.clone(), nulls);
    Ok(Some(Arc::new(words)))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array, StringArray};

    use super::*;

    fn on_host(array: ArrayRef) -> (Arc<Budget>, Column) {
        let budget = Budget::new(u64::MAX);
        let lease = budget.lease(0, "test").unwrap();
        (budget, Column::host(array, lease))
    }

    #[test]
    fn floats_order_as_datafusion_does() {
        let ascending = [
            -f64::NAN,
            f64::NEG_INFINITY,
            -1.0,
            -f64::MIN_POSITIVE / 2.0,
            0.0,
            f64::MIN_POSITIVE / 2.0,
            1.0,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in ascending.windows(2) {
            assert!(float_word(pair[0]) < float_word(pair[1]), "{pair:?}");
            assert!(
                float32_word(pair[0] as f32) <= float32_word(pair[1] as f32),
                "{pair:?}"
            );
        }
        assert_eq!(float_word(-0.0), float_word(0.0));
        assert_eq!(float32_word(-0.0), float32_word(0.0));
    }

    #[test]
    fn strings_rank_between_the_base_values() {
        let (budget, base) = on_host(Arc::new(StringArray::from(vec![
            Some("m"),
            None,
            Some("c"),
            Some("m"),
        ])));
        let (keys, domain) = order_keys(&budget, &base).unwrap();
        assert_eq!(keys.values.on_host().unwrap().as_ref(), [3, 0, 1, 3]);
        let (_, other) = on_host(Arc::new(StringArray::from(vec!["a", "c", "d", "m", "z"])));
        let keys = order_keys_in(&budget, &domain, &other).unwrap();
        assert_eq!(keys.values.on_host().unwrap().as_ref(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn wide_decimals_clamp_to_the_base() {
        let (budget, base) = on_host(Arc::new(Decimal128Array::from(vec![10, 12, 11])));
        let (keys, domain) = order_keys(&budget, &base).unwrap();
        assert_eq!(keys.values.on_host().unwrap().as_ref(), [1, 3, 2]);
        let (_, other) = on_host(Arc::new(Decimal128Array::from(vec![i128::MIN, 9, 10, 13])));
        let keys = order_keys_in(&budget, &domain, &other).unwrap();
        assert_eq!(keys.values.on_host().unwrap().as_ref(), [0, 0, 1, 4]);
    }

    #[test]
    fn decimals_that_span_more_than_64_bits_are_ranked() {
        let (budget, base) = on_host(Arc::new(Decimal128Array::from(vec![
            i128::MAX,
            i128::MIN,
            0,
        ])));
        let (keys, domain) = order_keys(&budget, &base).unwrap();
        assert!(matches!(domain, KeyDomain::Ranked(_)));
        assert_eq!(keys.values.on_host().unwrap().as_ref(), [5, 1, 3]);
    }

    #[test]
    fn nothing_in_a_base_of_nulls() {
        let (budget, base) = on_host(Arc::new(Float64Array::from(vec![None, None])));
        let (keys, _) = order_keys(&budget, &base).unwrap();
        assert_eq!(keys.valid.unwrap().on_host().unwrap().count_set_bits(), 0);
    }
}
