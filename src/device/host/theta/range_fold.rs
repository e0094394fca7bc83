//! Aggregates over a join without its matches (\[T\] section 4): values weighted by match counts, and folds over ranges
//! of the build side.
//!
//! Integer and decimal sums wrap, as DataFusion's do, so differences of prefix sums are exact. Floating-point sums are
//! never subtracted but folded over a tree of partial sums: a NaN, an infinity or a huge value outside a range does not
//! affect it.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, Int64Array, PrimitiveArray,
    UInt32Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::*;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::matches::Matches;
use crate::device::data::ranges::OrderedRows;
use crate::device::host::keys::order_keys::{HostKeys, order_keys, total, validity};
use crate::device::row_width::gathered_bytes;
use crate::error::{BowtieError, Result};

/// Positions, or nodes, that one node of the next level folds.
pub(super) const FAN_OUT: usize = 16;

/// Expands `$body` with `$t` as the Arrow type of `$data_type`, for types that SUM adds exactly or as `f64`.
macro_rules! summable {
    ($data_type:expr, $t:ident => $body:expr) => {
        match $data_type {
            DataType::Int64 => {
                type $t = Int64Type;
                $body
            }
            DataType::UInt64 => {
                type $t = UInt64Type;
                $body
            }
            DataType::Float64 => {
                type $t = Float64Type;
                $body
            }
            DataType::Decimal32(..) => {
                type $t = Decimal32Type;
                $body
            }
            DataType::Decimal64(..) => {
                type $t = Decimal64Type;
                $body
            }
            DataType::Decimal128(..) => {
                type $t = Decimal128Type;
                $body
            }
            DataType::Decimal256(..) => {
                type $t = Decimal256Type;
                $body
            }
            DataType::Duration(TimeUnit::Second) => {
                type $t = DurationSecondType;
                $body
            }
            DataType::Duration(TimeUnit::Millisecond) => {
                type $t = DurationMillisecondType;
                $body
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                type $t = DurationMicrosecondType;
                $body
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                type $t = DurationNanosecondType;
                $body
            }
            other => Err(BowtieError::Internal(format!("cannot sum {other}"))),
        }
    };
}

pub(crate) use summable;

/// `value × weight` for each row; NULL if the value is NULL or the weight is 0.
pub(crate) fn weigh(
    budget: &Arc<Budget>,
    values: &Column,
    weights: &Buffer<u32>,
) -> Result<Column> {
    let lease = budget.lease(values.rows() as u64 * 16, "weighted values")?;
    let array = values.on_host()?;
    let weights = weights.on_host()?;
    let nonzero = BooleanBuffer::collect_bool(weights.len(), |i| weights[i] != 0);
    let nulls = match validity(array) {
        Some(valid) => &valid & &nonzero,
        None => nonzero,
    };
    summable!(array.data_type(), T => {
        let products = array
            .as_primitive::<T>()
            .values()
            .iter()
            .zip(weights.iter())
            .map(|(v, w)| v.mul_wrapping(<T as ArrowPrimitiveType>::Native::usize_as(*w as usize)))
            .collect::<Vec<_>>();
        let sums = PrimitiveArray::<T>::new(products.into(), Some(NullBuffer::new(nulls)))
            .with_data_type(array.data_type().clone());
        Ok(Column::host(Arc::new(sums), lease))
    })
}

/// The sum of a column as a column of one row; NULL if all values are.
pub(crate) fn sum(budget: &Arc<Budget>, values: &Column) -> Result<Column> {
    let lease = budget.lease(32, "sums")?;
    let array = values.on_host()?;
    summable!(array.data_type(), T => {
        let sum = arrow::compute::sum(array.as_primitive::<T>());
        let sums = PrimitiveArray::<T>::from_iter([sum]).with_data_type(array.data_type().clone());
        Ok(Column::host(Arc::new(sums), lease))
    })
}

/// The weight of each row; 0 if its value in `values` is NULL.
pub(crate) fn weigh_count(
    budget: &Arc<Budget>,
    values: Option<&Column>,
    weights: &Buffer<u32>,
) -> Result<Column> {
    let lease = budget.lease(weights.len() as u64 * 8, "weighted counts")?;
    let values = values.map(Column::on_host).transpose()?;
    let valid = values.and_then(validity);
    let counts = weights
        .on_host()?
        .iter()
        .enumerate()
        .map(|(row, weight)| match &valid {
            Some(valid) if !valid.value(row) => 0,
            _ => i64::from(*weight),
        })
        .collect::<Vec<_>>();
    Ok(Column::host(Arc::new(Int64Array::from(counts)), lease))
}

/// For each of `rows` probe rows, the number of rows of its range that are not NULL in `values`.
pub(crate) fn range_count(
    budget: &Arc<Budget>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Column> {
    let lease = budget.lease((rows * 8 + matches.build.len() * 4) as u64, "range counts")?;
    let counted = NotNull::new(values.on_host()?, matches.build)?;
    let mut counts = vec![0i64; rows];
    for (row, lo, hi) in spans(matches)? {
        counts[row] = i64::from(counted.between(lo, hi));
    }
    Ok(Column::host(Arc::new(Int64Array::from(counts)), lease))
}

/// For each of `rows` probe rows, the sum of `values` over its range; NULL if all values of the range are.
pub(crate) fn range_sum(
    budget: &Arc<Budget>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Column> {
    let (array, build) = (values.on_host()?, matches.build);
    let lease = budget.lease((rows + build.len()) as u64 * 20, "range sums")?;
    let counted = NotNull::new(array, build)?;
    let mut some = BooleanBufferBuilder::new(rows);
    some.append_n(rows, false);
    for (row, lo, hi) in spans(matches)? {
        some.set_bit(row, counted.between(lo, hi) > 0);
    }
    let nulls = NullBuffer::new(some.finish());
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let ordered = in_order(floats, build)?;
        let tree = FoldTree::new(ordered, 0.0, |a, b| a + b);
        let sums = by_row(matches, rows, 0.0, |lo, hi| tree.fold(lo, hi))?;
        let sums = PrimitiveArray::<Float64Type>::new(sums.into(), Some(nulls));
        return Ok(Column::host(Arc::new(sums), lease));
    }
    summable!(array.data_type(), T => {
        let zero = <T as ArrowPrimitiveType>::Native::default();
        let mut prefix = Vec::with_capacity(build.len() + 1);
        let mut sum = zero;
        prefix.push(sum);
        for value in in_order(array.as_primitive::<T>(), build)? {
            sum = sum.add_wrapping(value);
            prefix.push(sum);
        }
        let sums = by_row(matches, rows, zero, |lo, hi| prefix[hi].sub_wrapping(prefix[lo]))?;
        let sums = PrimitiveArray::<T>::new(sums.into(), Some(nulls))
            .with_data_type(array.data_type().clone());
        Ok(Column::host(Arc::new(sums), lease))
    })
}

/// For each of `rows` probe rows, the least (`max`: greatest) of `values` over its range; NULL if there is none.
pub(crate) fn range_extreme(
    budget: &Arc<Budget>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
    max: bool,
) -> Result<Column> {
    let build = matches.build;
    let keys = match total(budget, values.on_host()?)? {
        Some(floats) => floats,
        None => order_keys(budget, values)?.0,
    };
    let _scratch = budget.lease((build.len() * 20 + rows * 8) as u64, "range extremes")?;
    let keys = HostKeys::new(&keys)?;
    // (key, row), with inverted keys for the maximum, so that the extreme is the least. NULLs are last.
    let nothing = (u64::MAX, u32::MAX);
    let ordered = build
        .rows
        .on_host()?
        .iter()
        .map(|row| match keys.is_valid(*row as usize) {
            true => {
                let word = keys.words[*row as usize];
                (if max { !word } else { word }, *row)
            }
            false => nothing,
        })
        .collect();
    let tree = FoldTree::new(ordered, nothing, |a, b| if b < a { b } else { a });
    let extremes = by_row(matches, rows, u32::MAX, |lo, hi| tree.fold(lo, hi).1)?;
    values_at(budget, values.on_host()?, extremes)
}

/// The value at each build position; NULL becomes zero.
pub(super) fn in_order<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    build: &OrderedRows,
) -> Result<Vec<T::Native>> {
    let rows = build.rows.on_host()?;
    Ok(match array.nulls() {
        None => rows
            .iter()
            .map(|row| array.values()[*row as usize])
            .collect(),
        Some(nulls) => rows
            .iter()
            .map(|row| match nulls.is_valid(*row as usize) {
                true => array.values()[*row as usize],
                false => T::Native::default(),
            })
            .collect(),
    })
}

/// Counts the values of a range that are not NULL.
enum NotNull {
    All,
    /// Prefix counts by build position.
    Prefix(Vec<u32>),
}

impl NotNull {
    fn new(array: &ArrayRef, build: &OrderedRows) -> Result<Self> {
        let Some(valid) = validity(array) else {
            return Ok(Self::All);
        };
        let mut prefix = Vec::with_capacity(build.len() + 1);
        let mut count = 0;
        prefix.push(count);
        for row in build.rows.on_host()?.iter() {
            count += u32::from(valid.value(*row as usize));
            prefix.push(count);
        }
        Ok(Self::Prefix(prefix))
    }

    fn between(&self, lo: usize, hi: usize) -> u32 {
        match self {
            Self::All => (hi - lo) as u32,
            Self::Prefix(prefix) => prefix[hi] - prefix[lo],
        }
    }
}

/// Each probe row and its range.
pub(super) fn spans(matches: Matches<'_>) -> Result<impl Iterator<Item = (usize, usize, usize)>> {
    let rows = matches.probe.rows.on_host()?;
    let bounds = matches
        .ranges
        .lo
        .on_host()?
        .iter()
        .zip(matches.ranges.hi.on_host()?);
    Ok(rows
        .iter()
        .zip(bounds)
        .map(|(row, (lo, hi))| (*row as usize, *lo as usize, *hi as usize)))
}

/// `each` of every range, at the index of its probe row; `missing` for rows without a range.
fn by_row<R: Copy + Send>(
    matches: Matches<'_>,
    rows: usize,
    missing: R,
    each: impl Fn(usize, usize) -> R + Sync,
) -> Result<Vec<R>> {
    let (lo, hi) = (matches.ranges.lo.on_host()?, matches.ranges.hi.on_host()?);
    let folded: Vec<R> = lo
        .par_iter()
        .zip(hi.par_iter())
        .with_min_len(1 << 12)
        .map(|(lo, hi)| each(*lo as usize, *hi as usize))
        .collect();
    placed(matches.probe, rows, missing, folded)
}

/// The value of each position, at the index of its row; `missing` for rows without a position.
pub(super) fn placed<R: Copy>(
    order: &OrderedRows,
    rows: usize,
    missing: R,
    values: impl IntoIterator<Item = R>,
) -> Result<Vec<R>> {
    let mut placed = vec![missing; rows];
    for (row, value) in order.rows.on_host()?.iter().zip(values) {
        placed[*row as usize] = value;
    }
    Ok(placed)
}

/// The values at these rows, NULL for `u32::MAX`.
pub(super) fn values_at(budget: &Arc<Budget>, array: &ArrayRef, rows: Vec<u32>) -> Result<Column> {
    let some = |row: &u32| *row != u32::MAX;
    let found: Vec<u32> = rows.iter().copied().filter(some).collect();
    let bytes = gathered_bytes(array, &found)?;
    // Arrow's 32-bit offsets end here; the caller makes a shorter piece, as for any refused lease.
    if bytes > i32::MAX as u64 && rows.len() > 1 {
        return Err(BowtieError::MustSplit {
            what: "column of extremes",
            size: bytes,
            most: i32::MAX as u64,
            unit: "bytes",
        });
    }
    drop(found);
    let lease = budget.lease(bytes + rows.len() as u64 * 16, "extremes")?;
    let rows: UInt32Array = rows
        .into_iter()
        .map(|row| some(&row).then_some(row))
        .collect();
    Ok(Column::host(take(array, &rows, None)?, lease))
}

/// Bytes of a value that is added: of the widest type, or of all others.
pub(super) fn summed_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Decimal256(..) => 32,
        _ => 16,
    }
}

/// Partial folds of 16, 256, 4096, … positions: any range folds in O(log n) steps.
pub(super) struct FoldTree<V, F> {
    levels: Vec<Vec<V>>,
    zero: V,
    combine: F,
}

impl<V: Copy, F: Fn(V, V) -> V> FoldTree<V, F> {
    pub(super) fn new(values: Vec<V>, zero: V, combine: F) -> Self {
        let mut levels = vec![values];
        while let Some(below) = levels.last().filter(|level| level.len() > FAN_OUT) {
            let level = below
                .chunks(FAN_OUT)
                .map(|nodes| nodes.iter().fold(zero, |a, b| combine(a, *b)))
                .collect();
            levels.push(level);
        }
        Self {
            levels,
            zero,
            combine,
        }
    }

    pub(super) fn fold(&self, mut lo: usize, mut hi: usize) -> V {
        let mut left = self.zero;
        let mut right = self.zero;
        for level in &self.levels {
            // The last level has no parent to continue in.
            let last = level.len() <= FAN_OUT;
            while lo < hi && (last || !lo.is_multiple_of(FAN_OUT)) {
                left = (self.combine)(left, level[lo]);
                lo += 1;
            }
            while lo < hi && !hi.is_multiple_of(FAN_OUT) {
                hi -= 1;
                right = (self.combine)(level[hi], right);
            }
            if lo >= hi {
                break;
            }
            (lo, hi) = (lo / FAN_OUT, hi / FAN_OUT);
        }
        (self.combine)(left, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_folds_any_range() {
        for n in [0usize, 1, 15, 16, 17, 255, 256, 257, 5000] {
            let values: Vec<u64> = (0..n as u64).map(|v| v * v % 1009).collect();
            let tree = FoldTree::new(values.clone(), 0, |a: u64, b| a + b);
            let least = FoldTree::new(values.clone(), u64::MAX, u64::min);
            for lo in (0..=n).step_by(n / 37 + 1) {
                for hi in (lo..=n).step_by(n / 41 + 1) {
                    assert_eq!(tree.fold(lo, hi), values[lo..hi].iter().sum::<u64>());
                    assert_eq!(
                        least.fold(lo, hi),
                        values[lo..hi].iter().copied().min().unwrap_or(u64::MAX)
                    );
                }
            }
        }
    }
}
