//! Folds over groups of rows (\[W\] 3.2 and 4.2 to 4.4). In: the group id of each row. Out: one state for each fold and
//! group. Each fold reads the rows once. `strategies.rs` assigns the group ids.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder, Float64Array,
    Int64Array, PrimitiveArray, UInt32Array, downcast_integer, make_comparator,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::host::keys::order_keys::{HostKeys, natural, plain_values, total, validity};
use crate::device::host::theta::range_fold::summable;
use crate::error::{BowtieError, Result};
use crate::ir::fold::Fold;

/// The most bytes that a fold allocates for a group.
const GROUP_BYTES: u64 = 41;

/// A check for cancellation: an error if the query is cancelled.
pub(crate) type CancelCheck<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// The states of each fold for `groups` groups, and each group's first row. `ids`: the group of each row.
pub(crate) fn fold_groups(
    budget: &Arc<Budget>,
    ids: &[u32],
    groups: usize,
    folds: &[(Fold, Option<&Column>)],
    check_cancelled: CancelCheck<'_>,
) -> Result<(Buffer<u32>, Vec<Column>)> {
    let lease = budget.lease(groups as u64 * 4, "groups")?;
    let mut firsts = vec![0; groups];
    for (row, id) in ids.iter().enumerate().rev() {
        firsts[*id as usize] = row as u32;
    }
    let states = folds
        .iter()
        .map(|(fold, values)| {
            check_cancelled()?;
            let lease = budget.lease(groups as u64 * GROUP_BYTES, "aggregates")?;
            let array = folded(budget, *fold, *values, ids, groups)?;
            Ok(Column::host(array, lease))
        })
        .collect::<Result<_>>()?;
    Ok((Buffer::host(firsts, lease), states))
}

fn folded(
    budget: &Arc<Budget>,
    fold: Fold,
    values: Option<&Column>,
    ids: &[u32],
    groups: usize,
) -> Result<ArrayRef> {
    let argument = || values.ok_or_else(|| BowtieError::Internal("a fold without a column".into()));
    match fold {
        Fold::Count => count(values, ids, groups),
        Fold::Sum => sum(argument()?.on_host()?, ids, groups),
        Fold::Min => extreme(budget, argument()?, ids, groups, false),
        Fold::Max => extreme(budget, argument()?, ids, groups, true),
        Fold::And | Fold::Or | Fold::Xor => bits(fold, argument()?.on_host()?, ids, groups),
        Fold::Mean => Ok(Arc::new(means(argument()?.on_host()?, ids, groups)?)),
        Fold::SquaredDeviations => squared_deviations(argument()?.on_host()?, ids, groups),
    }
}

fn count(values: Option<&Column>, ids: &[u32], groups: usize) -> Result<ArrayRef> {
    let values = values.map(Column::on_host).transpose()?;
    let counts = count_of(values.and_then(validity).as_ref(), ids, groups);
    Ok(Arc::new(Int64Array::from(counts)))
}

fn count_of(valid: Option<&BooleanBuffer>, ids: &[u32], groups: usize) -> Vec<i64> {
    let mut counts = vec![0; groups];
    for (row, id) in ids.iter().enumerate() {
        if valid.is_none_or(|valid| valid.value(row)) {
            counts[*id as usize] += 1;
        }
    }
    counts
}

/// Folds the values that are not NULL. A group without such a value is NULL; the word beneath is `nothing`.
fn over_groups<T: Copy>(
    values: impl Iterator<Item = T>,
    valid: Option<&NullBuffer>,
    ids: &[u32],
    groups: usize,
    nothing: T,
    fold: impl Fn(T, T) -> T,
) -> (Vec<T>, NullBuffer) {
    let mut folded = vec![nothing; groups];
    let mut some = BooleanBufferBuilder::new(groups);
    some.append_n(groups, false);
    for (row, (value, id)) in values.zip(ids).enumerate() {
        if valid.is_none_or(|valid| valid.is_valid(row)) {
            let id = *id as usize;
            folded[id] = match some.get_bit(id) {
                true => fold(folded[id], value),
                false => value,
            };
            some.set_bit(id, true);
        }
    }
    (folded, NullBuffer::new(some.finish()))
}

fn sum(array: &ArrayRef, ids: &[u32], groups: usize) -> Result<ArrayRef> {
    summable!(array.data_type(), T => {
        let values = array.as_primitive::<T>();
        let zero = <T as ArrowPrimitiveType>::Native::default();
        let (sums, some) =
            over_groups(values.values().iter().copied(), values.nulls(), ids, groups, zero, |a, b| a.add_wrapping(b));
        let sums = PrimitiveArray::<T>::new(sums.into(), Some(some));
        Ok(Arc::new(sums.with_data_type(array.data_type().clone())))
    })
}

/// The mean of each group; NULL if all its values are NULL.
fn means(array: &ArrayRef, ids: &[u32], groups: usize) -> Result<Float64Array> {
    let sums = sum(array, ids, groups)?;
    let counts = count_of(validity(array).as_ref(), ids, groups);
    let sums = sums
        .as_primitive_opt::<Float64Type>()
        .ok_or_else(|| BowtieError::Internal(format!("a mean of {}", array.data_type())))?;
    let means = sums.values().iter().zip(&counts);
    let means: Vec<f64> = means.map(|(sum, count)| sum / *count as f64).collect();
    Ok(Float64Array::new(means.into(), sums.nulls().cloned()))
}

/// By the corrected two-pass formula, without cancellation of large numbers at any mean.
fn squared_deviations(array: &ArrayRef, ids: &[u32], groups: usize) -> Result<ArrayRef> {
    let means = means(array, ids, groups)?;
    let values = array.as_primitive::<Float64Type>();
    let (mut counts, mut sums, mut squares) =
        (vec![0; groups], vec![0.0; groups], vec![0.0; groups]);
    for (row, (value, id)) in values.values().iter().zip(ids).enumerate() {
        if values.is_valid(row) {
            let id = *id as usize;
            let deviation = value - means.value(id);
            counts[id] += 1;
            sums[id] += deviation;
            squares[id] += deviation * deviation;
        }
    }
    let groups = counts.iter().zip(&sums).zip(&squares);
    let m2: Vec<f64> = groups
        .map(|((count, sum), squares)| corrected(*count, *sum, *squares))
        .collect();
    Ok(Arc::new(Float64Array::new(
        m2.into(),
        means.nulls().cloned(),
    )))
}

/// The sum of squared deviations from the mean. In: deviations from a number near the mean (`deviations`: their sum,
/// `squares`: the sum of their squares).
pub(crate) fn corrected(count: i64, deviations: f64, squares: f64) -> f64 {
    let m2 = squares - deviations * deviations / count as f64;
    // Rounding may give a number slightly below zero. NaN is returned as it is.
    if m2 < 0.0 { 0.0 } else { m2 }
}

/// The first of the least values, or the last of the greatest. Floats compare in total order, other narrow types by
/// their order keys, the rest by Arrow's order, which agrees with order keys.
fn extreme(
    budget: &Arc<Budget>,
    values: &Column,
    ids: &[u32],
    groups: usize,
    max: bool,
) -> Result<ArrayRef> {
    let array = plain_values(values.on_host()?)?;
    let keys = match total(budget, &array)? {
        None => natural(budget, &array)?,
        floats => floats,
    };
    let best = match keys {
        Some(keys) => {
            let keys = HostKeys::new(&keys)?;
            best_rows(
                ids,
                groups,
                max,
                |row| keys.is_valid(row),
                |a, b| keys.words[a].cmp(&keys.words[b]),
            )
        }
        None => {
            let compare = make_comparator(&array, &array, SortOptions::default())?;
            let valid = validity(&array);
            let is_there = |row| valid.as_ref().is_none_or(|valid| valid.value(row));
            best_rows(ids, groups, max, is_there, compare)
        }
    };
    Ok(take(values.on_host()?, &best, None)?)
}

/// The row of each group's extreme; NULL if all its values are NULL.
fn best_rows(
    ids: &[u32],
    groups: usize,
    max: bool,
    is_there: impl Fn(usize) -> bool,
    compare: impl Fn(usize, usize) -> Ordering,
) -> UInt32Array {
    let mut best: Vec<Option<u32>> = vec![None; groups];
    for (row, id) in ids.iter().enumerate() {
        if !is_there(row) {
            continue;
        }
        let best = &mut best[*id as usize];
        let better = match *best {
            None => true,
            Some(known) if max => compare(row, known as usize).is_ge(),
            Some(known) => compare(row, known as usize).is_lt(),
        };
        if better {
            *best = Some(row as u32);
        }
    }
    best.into()
}

fn bits(fold: Fold, array: &ArrayRef, ids: &[u32], groups: usize) -> Result<ArrayRef> {
    if let Some(values) = array.as_boolean_opt() {
        let (folded, some) = over_groups(
            values.values().iter(),
            values.nulls(),
            ids,
            groups,
            false,
            |a, b| match fold {
                Fold::And => a & b,
                Fold::Or => a | b,
                _ => a ^ b,
            },
        );
        let folded = BooleanBuffer::from(folded);
        return Ok(Arc::new(BooleanArray::new(folded, Some(some))));
    }
    macro_rules! integers {
        ($t:ty) => {{
            let values = array.as_primitive::<$t>();
            let (folded, some) = over_groups(
                values.values().iter().copied(),
                values.nulls(),
                ids,
                groups,
                0,
                |a, b| match fold {
                    Fold::And => a & b,
                    Fold::Or => a | b,
                    _ => a ^ b,
                },
            );
            Ok(Arc::new(PrimitiveArray::<$t>::new(folded.into(), Some(some))) as ArrayRef)
        }};
    }
    downcast_integer! {
        array.data_type() => (integers),
        other => Err(BowtieError::Internal(format!("{other} has no bits to fold"))),
    }
}
