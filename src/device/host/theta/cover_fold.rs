//! Folds over the probe rows in whose ranges a build row is: the other direction of [`range_fold`]. In: ranges, and a column of the probe
//! side. Out: a column of folds, one for each build row.
//!
//! Counts and wrapping sums are prefix sums of differences: a value is added where its range begins, and subtracted behind its end. Sums of
//! floats and extremes are never subtracted: a range adds its value to the few nodes of a tree that make it up, and each position then folds
//! the nodes above itself.
//!
//! [`range_fold`]: crate::device::host::theta::range_fold

use std::sync::Arc;

use arrow::array::{Array, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::*;

use crate::device::budget::Budget;
use crate::device::data::column::Column;
use crate::device::data::matches::Matches;
use crate::device::host::keys::order_keys::{HostKeys, order_keys, total, validity};
use crate::device::host::theta::range_fold::{
    FAN_OUT, placed, spans, summable, summed_bytes, values_at,
};
use crate::error::{BowtieError, Result};

/// The number of ranges over each build row whose probe row is not NULL in `values`.
pub(crate) fn cover_count(
    budget: &Arc<Budget>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Column> {
    let bytes = (matches.build.len() + rows) * 12;
    let lease = budget.lease(bytes as u64, "counts of covers")?;
    let counts = counts(values, matches, rows)?;
    let counts = counts.into_iter().map(i64::from).collect::<Vec<_>>();
    Ok(Column::host(Arc::new(Int64Array::from(counts)), lease))
}

/// The sum of `values` over the ranges over each build row; NULL if all of them are.
pub(crate) fn cover_sum(
    budget: &Arc<Budget>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Column> {
    let array = values.on_host()?;
    let each = 2 * summed_bytes(array.data_type()) + 8;
    let bytes = (matches.build.len() + 1 + rows) * each;
    let lease = budget.lease(bytes as u64, "sums of covers")?;
    let counts = counts(values, matches, rows)?;
    let some = BooleanBuffer::collect_bool(rows, |row| counts[row] > 0);
    let nulls = Some(NullBuffer::new(some));
    let valid = validity(array);
    let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.value(row));
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let mut tree = CoverTree::new(matches.build.len(), 0.0, |a, b| a + b);
        for (row, lo, hi) in spans(matches)?.filter(|(row, ..)| is_valid(*row)) {
            tree.add(lo, hi, floats.value(row));
        }
        let sums = placed(matches.build, rows, 0.0, tree.finish())?;
        let sums = PrimitiveArray::<Float64Type>::new(sums.into(), nulls);
        return Ok(Column::host(Arc::new(sums), lease));
    }
    summable!(array.data_type(), T => {
        let typed = array.as_primitive::<T>();
        let zero = <T as ArrowPrimitiveType>::Native::default();
        let mut steps = vec![zero; matches.build.len() + 1];
        for (row, lo, hi) in spans(matches)?.filter(|(row, ..)| is_valid(*row)) {
            let value = typed.value(row);
            steps[lo] = steps[lo].add_wrapping(value);
            steps[hi] = steps[hi].sub_wrapping(value);
        }
        let mut sum = zero;
        let sums = steps.into_iter().map(|step| {
            sum = sum.add_wrapping(step);
            sum
        });
        let sums = placed(matches.build, rows, zero, sums)?;
        let sums = PrimitiveArray::<T>::new(sums.into(), nulls)
            .with_data_type(array.data_type().clone());
        Ok(Column::host(Arc::new(sums), lease))
    })
}

/// The least (`max`: greatest) of `values` over the ranges over each build row; NULL if there is none.
pub(crate) fn cover_extreme(
    budget: &Arc<Budget>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
    max: bool,
) -> Result<Column> {
    let keys = match total(budget, values.on_host()?)? {
        Some(floats) => floats,
        None => order_keys(budget, values)?.0,
    };
    let bytes = matches.build.len() * 40 + rows * 8;
    let _scratch = budget.lease(bytes as u64, "extremes of covers")?;
    let keys = HostKeys::new(&keys)?;
    // (key, row), with inverted keys for the maximum, so that the extreme is the least.
    let nothing = (u64::MAX, u32::MAX);
    let mut tree = CoverTree::new(
        matches.build.len(),
        nothing,
        |a, b| if b < a { b } else { a },
    );
    for (row, lo, hi) in spans(matches)?.filter(|(row, ..)| keys.is_valid(*row)) {
        let word = keys.words[row];
        tree.add(lo, hi, (if max { !word } else { word }, row as u32));
    }
    let extremes = tree.finish().into_iter().map(|(_, row)| row);
    let extremes = placed(matches.build, rows, u32::MAX, extremes)?;
    values_at(budget, values.on_host()?, extremes)
}

/// The ranges over each build row whose probe row is not NULL in `values`.
fn counts(values: &Column, matches: Matches<'_>, rows: usize) -> Result<Vec<u32>> {
    let valid = validity(values.on_host()?);
    // Its prefix sums are between 0 and the number of ranges, so wrapping steps are correct.
    let mut steps = vec![0u32; matches.build.len() + 1];
    for (row, lo, hi) in spans(matches)? {
        if valid.as_ref().is_none_or(|valid| valid.value(row)) {
            steps[lo] = steps[lo].wrapping_add(1);
            steps[hi] = steps[hi].wrapping_sub(1);
        }
    }
    let mut covering = 0u32;
    let counts = steps.into_iter().map(|step| {
        covering = covering.wrapping_add(step);
        covering
    });
    placed(matches.build, rows, 0, counts)
}

/// What ranges of 16, 256, 4096, … positions have in common: a range adds to O(log n) nodes.
struct CoverTree<V, F> {
    levels: Vec<Vec<V>>,
    combine: F,
}

impl<V: Copy, F: Fn(V, V) -> V> CoverTree<V, F> {
    fn new(positions: usize, zero: V, combine: F) -> Self {
        let mut levels = vec![vec![zero; positions]];
        let mut nodes = positions;
        while nodes > FAN_OUT {
            nodes = nodes.div_ceil(FAN_OUT);
            levels.push(vec![zero; nodes]);
        }
        Self { levels, combine }
    }

    /// Adds a value to all positions of a range.
    fn add(&mut self, mut lo: usize, mut hi: usize, value: V) {
        let combine = &self.combine;
        for level in &mut self.levels {
            // The last level has no parent to continue in.
            let last = level.len() <= FAN_OUT;
            while lo < hi && (last || !lo.is_multiple_of(FAN_OUT)) {
                level[lo] = combine(level[lo], value);
                lo += 1;
            }
            while lo < hi && !hi.is_multiple_of(FAN_OUT) {
                hi -= 1;
                level[hi] = combine(level[hi], value);
            }
            if lo >= hi {
                return;
            }
            (lo, hi) = (lo / FAN_OUT, hi / FAN_OUT);
        }
    }

    /// What was added to each position.
    fn finish(mut self) -> Vec<V> {
        while let Some(above) = self.levels.pop() {
            let Some(level) = self.levels.last_mut() else {
                return above;
            };
            for (nodes, parent) in level.chunks_mut(FAN_OUT).zip(above) {
                for node in nodes {
                    *node = (self.combine)(parent, *node);
                }
            }
        }
        vec![]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_adds_to_any_range() {
        for n in [0usize, 1, 15, 16, 17, 255, 256, 257, 5000] {
            let mut tree = CoverTree::new(n, 0u64, |a, b| a + b);
            let mut least = CoverTree::new(n, u64::MAX, u64::min);
            let mut expected = vec![(0, u64::MAX); n];
            let mut value = 7;
            for lo in (0..=n).step_by(n / 37 + 1) {
                for hi in (lo..=n).step_by(n / 41 + 1) {
                    value = value * 31 % 1009;
                    tree.add(lo, hi, value);
                    least.add(lo, hi, value);
                    for (sum, least) in &mut expected[lo..hi] {
                        *sum += value;
                        *least = value.min(*least);
                    }
                }
            }
            let (sums, least) = (tree.finish(), least.finish());
            assert!(sums.into_iter().eq(expected.iter().map(|e| e.0)));
            assert!(least.into_iter().eq(expected.iter().map(|e| e.1)));
        }
    }
}
