//! Folds over the tested matches of ranges, without writing them: under any tests and by a pair program as a walk finds them (`walked_fold.rs`); under one inequality by merging where ranges have one free end (`merged_fold.rs`), otherwise
//! level by level of a wavelet matrix (Claude, Navarro & Ordóñez 2015). In: ranges of build positions, keys of the test by position, and a column of the build side. Out: a column of folds, one for each
//! probe row.
//!
//! The keys are replaced by their ranks, so that a probe row matches the positions of its range with a rank below its *bound*. Positions are
//! partitioned by one bit of the ranks after the other, the highest first. Where the bound has the bit, the positions of the range without
//! it are matches, and neighbours behind the partition: a range to fold. The others go on to the next bit. So a row folds one range a level,
//! and all rows together take O((n + m) log n). Only one level is held at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::*;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::column::Column;
use crate::device::data::matches::{Matches, Test};
use crate::device::host::keys::order_keys::{HostKeys, order_keys, total, validity};
use crate::device::host::theta::merged_fold::{OneSided, SEGMENT_BYTES, Tested};
use crate::device::host::theta::range_fold::{
    FoldTree, in_order, placed, summable, summed_bytes, values_at,
};
use crate::device::host::theta::walked_fold::WalkedFold;
use crate::device::host::theta::zone_map::ZonedKeys;
use crate::error::{BowtieError, Result};
use crate::ir::comparison::Comparison;
use crate::ir::fold::RangeFold;

/// Bytes of a build and of a probe position beside the values.
const BUILD_BYTES: usize = 40;
const PROBE_BYTES: usize = 48;
/// The most copies of a value, with its count, of each side at a time: two levels, parts of one, and its folds; merged, all twice.
const VALUES: usize = 5;
const PROBE_VALUES: usize = 4;

/// For each of `rows` probe rows, a fold of `values` over the matches in its range.
pub(crate) fn fold_tested(
    budget: &Arc<Budget>,
    fold: RangeFold,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
    cancelled: &AtomicBool,
) -> Result<Column> {
    let array = values.on_host()?;
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let value = summed_bytes(array.data_type());
    let value_and_count = value + 8;
    let segments = matches
        .build
        .segments
        .as_ref()
        .map_or(2, |segments| segments.len());
    let bytes = segments * SEGMENT_BYTES
        + n * (BUILD_BYTES + VALUES * value_and_count)
        + m * (PROBE_BYTES + PROBE_VALUES * value_and_count);
    let _scratch = budget.lease(bytes as u64, "folds under a test")?;
    let lease = budget.lease((rows * (8 + value)) as u64, "folds under a test")?;
    let folding = Folding::new(matches, cancelled)?;
    let valid = validity(array);
    let build_rows = matches.build.rows.on_host()?;
    let is_there = |row: &u32| u32::from(valid.as_ref().is_none_or(|v| v.value(*row as usize)));
    let counts = || -> Result<Vec<u32>> {
        let counted = build_rows.iter().map(is_there).collect();
        let counts = folding.fold(
            counted,
            0,
            |a, b| a + b,
            prefixes(0, |a, b| a + b, |a, b| a - b),
        )?;
        placed(matches.probe, rows, 0, counts)
    };
    // A sum, and how many values it has: none is NULL.
    let counted = build_rows.iter().map(is_there);
    let nulls = |counts: &[u32]| -> Option<NullBuffer> {
        Some(BooleanBuffer::collect_bool(rows, |row| counts[row] > 0).into())
    };
    let folded = match fold {
        RangeFold::Count => {
            let counts = counts()?.into_iter().map(i64::from);
            Column::host(Arc::new(Int64Array::from_iter_values(counts)), lease)
        }
        RangeFold::Min | RangeFold::Max => {
            let keys = match total(budget, array)? {
                Some(floats) => floats,
                None => order_keys(budget, values)?.0,
            };
            let keys = HostKeys::new(&keys)?;
            // (key, row), with inverted keys for the maximum, so that the extreme is the least.
            let nothing = (u64::MAX, u32::MAX);
            let of_row = |row: &u32| match keys.is_valid(*row as usize) {
                true => {
                    let word = keys.words[*row as usize];
                    (if fold == RangeFold::Max { !word } else { word }, *row)
                }
                false => nothing,
            };
            let least = |a: (u64, u32), b: (u64, u32)| if b < a { b } else { a };
            let candidates = build_rows.iter().map(of_row).collect();
            let extremes = folding.fold(candidates, nothing, least, trees(nothing, least))?;
            let extremes = extremes.into_iter().map(|(_, row)| row);
            let extremes = placed(matches.probe, rows, u32::MAX, extremes)?;
            return values_at(budget, array, extremes);
        }
        RangeFold::Sum => {
            if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
                let add = |a: (f64, u32), b: (f64, u32)| (a.0 + b.0, a.1 + b.1);
                let ordered = in_order(floats, matches.build)?
                    .into_iter()
                    .zip(counted)
                    .collect();
                let sums = folding.fold(ordered, (0.0, 0), add, trees((0.0, 0), add))?;
                let (sums, counts): (Vec<_>, Vec<_>) = placed(matches.probe, rows, (0.0, 0), sums)?
                    .into_iter()
                    .unzip();
                let sums = PrimitiveArray::<Float64Type>::new(sums.into(), nulls(&counts));
                return Ok(Column::host(Arc::new(sums), lease));
            }
            summable!(array.data_type(), T => {
                type Native = <T as ArrowPrimitiveType>::Native;
                type Counted = (Native, u32);
                let zero: Counted = (Native::default(), 0);
                let add = |a: Counted, b: Counted| (a.0.add_wrapping(b.0), a.1 + b.1);
                let sub = |a: Counted, b: Counted| (a.0.sub_wrapping(b.0), a.1 - b.1);
                let ordered = in_order(array.as_primitive::<T>(), matches.build)?.into_iter().zip(counted).collect();
                let sums = folding.fold(ordered, zero, add, prefixes(zero, add, sub))?;
                let (sums, counts): (Vec<_>, Vec<_>) = placed(matches.probe, rows, zero, sums)?.into_iter().unzip();
                let sums = PrimitiveArray::<T>::new(sums.into(), nulls(&counts))
                    .with_data_type(array.data_type().clone());
                Ok::<_, BowtieError>(Column::host(Arc::new(sums), lease))
            })?
        }
    };
    Ok(folded)
}

/// A function of ranges of a level's values.
type OfRange<V> = Box<dyn Fn(usize, usize) -> V + Send + Sync>;

/// Folds ranges by differences of prefix folds.
fn prefixes<V: Copy + Send + Sync + 'static>(
    zero: V,
    add: impl Fn(V, V) -> V + Copy + Send + Sync + 'static,
    sub: impl Fn(V, V) -> V + Copy + Send + Sync + 'static,
) -> impl Fn(Vec<V>) -> OfRange<V> {
    move |values| {
        let mut prefix = Vec::with_capacity(values.len() + 1);
        let mut sum = zero;
        prefix.push(sum);
        for value in values {
            sum = add(sum, value);
            prefix.push(sum);
        }
        Box::new(move |lo, hi| sub(prefix[hi], prefix[lo]))
    }
}

/// Folds ranges by a tree, without subtraction.
fn trees<V: Copy + Send + Sync + 'static>(
    zero: V,
    combine: impl Fn(V, V) -> V + Copy + Send + Sync + 'static,
) -> impl Fn(Vec<V>) -> OfRange<V> {
    move |values| {
        let tree = FoldTree::new(values, zero, combine);
        Box::new(move |lo, hi| tree.fold(lo, hi))
    }
}

/// How the matches of ranges are folded.
enum Folding<'a> {
    /// Ranges have one free end.
    Merged {
        one_sided: OneSided,
        tested: Tested<'a>,
        ends: (&'a [u32], &'a [u32]),
        cancelled: &'a AtomicBool,
    },
    ByLevels(Levels<'a>),
    Walked(WalkedFold<'a>),
}

impl<'a> Folding<'a> {
    fn new(matches: Matches<'a>, cancelled: &'a AtomicBool) -> Result<Self> {
        let test = match (matches.tests, &matches.program) {
            ([test], None) if test.op.is_inequality() => test,
            _ => return Ok(Self::Walked(WalkedFold::new(matches, cancelled)?)),
        };
        let (lo, hi) = (matches.ranges.lo.on_host()?, matches.ranges.hi.on_host()?);
        Ok(match OneSided::of_matches(matches)? {
            Some(one_sided) => Self::Merged {
                one_sided,
                tested: Tested::of(test)?,
                ends: (lo, hi),
                cancelled,
            },
            None => Self::ByLevels(Levels::new(test, matches, cancelled)?),
        })
    }

    /// The fold of each probe position's matches. `ranges` makes a function of ranges of the values of a level.
    fn fold<V: Copy + Send + Sync>(
        &self,
        values: Vec<V>,
        zero: V,
        combine: impl Fn(V, V) -> V + Sync,
        ranges: impl Fn(Vec<V>) -> OfRange<V>,
    ) -> Result<Vec<V>> {
        match self {
            Self::Merged {
                one_sided,
                tested,
                ends,
                cancelled,
            } => one_sided.fold(*tested, &values, *ends, (zero, &combine), cancelled),
            Self::ByLevels(levels) => levels.fold(values, zero, combine, ranges),
            Self::Walked(walked) => walked.fold(&values, zero, &combine),
        }
    }
}

/// What the levels are made of.
struct Levels<'a> {
    /// The rank of each build position: matches have ranks below a bound.
    ranks: Vec<u32>,
    /// Of each probe position.
    bounds: Vec<u32>,
    lo: &'a [u32],
    hi: &'a [u32],
    cancelled: &'a AtomicBool,
}

/// A probe position on a level: its range, and the folds of the levels above.
struct Walker<V> {
    lo: u32,
    hi: u32,
    folded: V,
}

impl<'a> Levels<'a> {
    fn new(test: &Test<'_>, matches: Matches<'a>, cancelled: &'a AtomicBool) -> Result<Self> {
        let keys = test.build.0.get::<ZonedKeys>()?.keys();
        let words = test.probe.0.get::<ZonedKeys>()?.keys();
        let mut by_key: Vec<(u64, u32)> = keys.iter().copied().zip(0..).collect();
        by_key.par_sort_unstable();
        // Where greater keys match, ranks are counted from the greatest key.
        let descending = match test.op {
            Comparison::Lt | Comparison::LtEq => false,
            Comparison::Gt | Comparison::GtEq => true,
            op => return Err(BowtieError::Internal(format!("folds under {op:?}"))),
        };
        let n = by_key.len() as u32;
        let mut ranks = vec![0; by_key.len()];
        for (rank, (_, position)) in (0..).zip(&by_key) {
            ranks[*position as usize] = if descending { n - 1 - rank } else { rank };
        }
        let bounds = words.par_iter().map(|word| {
            let below = |word: &u64| by_key.partition_point(|(key, _)| key < word) as u32;
            let to = |word: &u64| by_key.partition_point(|(key, _)| key <= word) as u32;
            match test.op {
                Comparison::Lt => below(word),
                Comparison::LtEq => to(word),
                Comparison::Gt => n - to(word),
                _ => n - below(word),
            }
        });
        Ok(Self {
            ranks,
            bounds: bounds.collect(),
            lo: matches.ranges.lo.on_host()?,
            hi: matches.ranges.hi.on_host()?,
            cancelled,
        })
    }

    /// The fold of each probe position's matches. `ranges` makes a function of ranges of the values of a level.
    fn fold<V: Copy + Send + Sync>(
        &self,
        mut values: Vec<V>,
        zero: V,
        combine: impl Fn(V, V) -> V + Sync,
        ranges: impl Fn(Vec<V>) -> OfRange<V>,
    ) -> Result<Vec<V>> {
        let n = self.ranks.len();
        let ends = self.lo.par_iter().zip(self.hi);
        let mut walkers: Vec<Walker<V>> = ends
            .map(|(lo, hi)| Walker {
                lo: *lo,
                hi: *hi,
                folded: zero,
            })
            .collect();
        let mut ranks = self.ranks.clone();
        // A bound may be n itself.
        for bit in (0..usize::BITS - n.leading_zeros()).rev() {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(BowtieError::Cancelled);
            }
            // How many positions before each one are without the bit.
            let mut zeros = Vec::with_capacity(n + 1);
            let (mut ones, mut values_of_ones) = (vec![], vec![]);
            let mut next = Vec::with_capacity(n);
            let mut next_values = Vec::with_capacity(n);
            for (rank, value) in ranks.iter().zip(&values) {
                zeros.push(next.len() as u32);
                match rank >> bit & 1 {
                    0 => {
                        next.push(*rank);
                        next_values.push(*value);
                    }
                    _ => {
                        ones.push(*rank);
                        values_of_ones.push(*value);
                    }
                }
            }
            let of_zeros = next.len() as u32;
            zeros.push(of_zeros);
            let of_range = ranges(next_values.clone());
            next.append(&mut ones);
            next_values.append(&mut values_of_ones);
            let each = walkers
                .par_iter_mut()
                .zip(&self.bounds)
                .with_min_len(1 << 12);
            each.filter(|(walker, _)| walker.lo < walker.hi)
                .for_each(|(walker, bound)| {
                    let (lo, hi) = (zeros[walker.lo as usize], zeros[walker.hi as usize]);
                    match bound >> bit & 1 {
                        0 => (walker.lo, walker.hi) = (lo, hi),
                        _ => {
                            if lo < hi {
                                let matched = of_range(lo as usize, hi as usize);
                                walker.folded = combine(walker.folded, matched);
                            }
                            walker.lo = of_zeros + (walker.lo - lo);
                            walker.hi = of_zeros + (walker.hi - hi);
                        }
                    }
                });
            (ranks, values) = (next, next_values);
        }
        Ok(walkers.into_iter().map(|walker| walker.folded).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matches of each row, one by one.
    #[test]
    fn levels_fold_what_is_below_a_bound() {
        static NEVER: AtomicBool = AtomicBool::new(false);
        for n in [1usize, 2, 7, 16, 33, 200] {
            let mut ranks: Vec<u32> = (0..n as u32).collect();
            // An order of no pattern: positions swapped by a generator.
            let mut state = 7u64;
            for i in (1..n).rev() {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                ranks.swap(i, (state >> 33) as usize % (i + 1));
            }
            let values: Vec<u64> = (0..n as u64).map(|i| i * i % 101).collect();
            let ends = (0..=n as u32).flat_map(|lo| (lo..=n as u32).map(move |hi| (lo, hi)));
            let (lo, hi): (Vec<u32>, Vec<u32>) = ends.step_by(n / 9 + 1).unzip();
            let bounds: Vec<u32> = (0..lo.len()).map(|i| (i * 5 % (n + 1)) as u32).collect();
            let levels = Levels {
                ranks: ranks.clone(),
                bounds: bounds.clone(),
                lo: &lo,
                hi: &hi,
                cancelled: &NEVER,
            };
            let add = |a: u64, b: u64| a + b;
            let sums = levels
                .fold(values.clone(), 0, add, prefixes(0, add, |a, b| a - b))
                .unwrap();
            let least = levels
                .fold(
                    values.clone(),
                    u64::MAX,
                    u64::min,
                    trees(u64::MAX, u64::min),
                )
                .unwrap();
            for (i, bound) in bounds.iter().enumerate() {
                let range = lo[i] as usize..hi[i] as usize;
                let matched = range.filter(|position| ranks[*position] < *bound);
                let matched: Vec<u64> = matched.map(|position| values[position]).collect();
                assert_eq!(sums[i], matched.iter().sum::<u64>());
                assert_eq!(least[i], matched.iter().copied().min().unwrap_or(u64::MAX));
            }
        }
    }
}
