//! Rows that are in an order of their keys already: equal keys are adjacent then, so that neither a hash table nor a sort is needed (\[D\]'s operators
//! read sorted relations).
//!
//! Rows are in an order of key columns if, wherever two neighbours differ in a column and not in those before it, the values ascend, or everywhere
//! descend, and NULLs come first, or everywhere last.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};

use arrow::array::{Array, ArrayRef, AsArray, make_comparator};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use rayon::prelude::*;

use crate::device::host::keys::order_keys::{float_word, float16_word, float32_word, validity};
use crate::error::Result;

/// Whether 0.0 and −0.0 are one value: to GROUP BY they are, to ORDER BY they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zeros {
    Equal,
    Ordered,
}

/// How neighbours differ in a column: a set of these.
type Steps = u8;

const ASCENDS: Steps = 1;
const DESCENDS: Steps = 2;
const NULL_BEFORE: Steps = 4;
const NULL_AFTER: Steps = 8;

/// The places where the order is looked at before all rows are, and the rows at each.
const PLACES: usize = 4;
const PLACE_ROWS: usize = 64;

/// Rows that one task compares with their predecessors.
const TASK_ROWS: usize = 1 << 16;

/// The rows at which the order of `rows` rows is looked at first, ascending.
pub(crate) fn places(rows: usize) -> impl Iterator<Item = usize> {
    let looked_at = PLACE_ROWS.min(rows / PLACES);
    let firsts = (0..PLACES).map(move |place| (rows - looked_at) / (PLACES - 1) * place);
    firsts.flat_map(move |first| first..first + looked_at)
}

/// Key columns whose rows are compared.
pub(crate) struct RowOrder(Vec<KeyColumn>);

struct KeyColumn {
    /// Of values that are not NULL.
    compare: Box<dyn Fn(usize, usize) -> Ordering + Send + Sync>,
    valid: Option<BooleanBuffer>,
    /// The steps that an order may have.
    allowed: Steps,
}

impl KeyColumn {
    fn is_valid(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid.value(row))
    }

    fn step(&self, before: usize, row: usize) -> Option<Steps> {
        match (self.is_valid(before), self.is_valid(row)) {
            (true, true) => match (self.compare)(before, row) {
                Ordering::Less => Some(ASCENDS),
                Ordering::Greater => Some(DESCENDS),
                Ordering::Equal => None,
            },
            (false, true) => Some(NULL_BEFORE),
            (true, false) => Some(NULL_AFTER),
            (false, false) => None,
        }
    }

    /// Whether these steps are of one order.
    fn allows(&self, seen: Steps) -> bool {
        let has_both = |of: Steps| seen & of == of;
        seen & !self.allowed == 0
            && !has_both(ASCENDS | DESCENDS)
            && !has_both(NULL_BEFORE | NULL_AFTER)
    }
}

impl RowOrder {
    /// Of any order of the columns; `None` where rows of some column are not compared: it is nested, has no comparator, or is a
    /// dictionary of floats whose zeros are equal.
    pub(crate) fn any(keys: &[ArrayRef], zeros: Zeros) -> Result<Option<Self>> {
        let all = ASCENDS | DESCENDS | NULL_BEFORE | NULL_AFTER;
        Self::of(keys.iter().map(|key| (key, all)), zeros)
    }

    /// Of the order of ORDER BY.
    pub(crate) fn given(keys: &[(ArrayRef, SortOptions)]) -> Result<Option<Self>> {
        let allowed = |options: &SortOptions| {
            let values = if options.descending {
                DESCENDS
            } else {
                ASCENDS
            };
            let nulls = if options.nulls_first {
                NULL_BEFORE
            } else {
                NULL_AFTER
            };
            values | nulls
        };
        let keys = keys.iter().map(|(key, options)| (key, allowed(options)));
        Self::of(keys, Zeros::Ordered)
    }

    fn of<'a>(
        keys: impl Iterator<Item = (&'a ArrayRef, Steps)>,
        zeros: Zeros,
    ) -> Result<Option<Self>> {
        let mut columns = vec![];
        for (key, allowed) in keys {
            // Values of a dictionary are compared where they are.
            let values = match key.data_type() {
                DataType::Dictionary(_, values) => values.as_ref(),
                data_type => data_type,
            };
            let is_encoded_float = values != key.data_type() && values.is_floating();
            if values.is_nested()
                || matches!(values, DataType::RunEndEncoded(..))
                || (is_encoded_float && zeros == Zeros::Equal)
            {
                return Ok(None);
            }
            let Ok(compare) = compare(key, zeros) else {
                return Ok(None);
            };
            columns.push(KeyColumn {
                compare,
                valid: validity(key),
                allowed,
            });
        }
        Ok(Some(Self(columns)))
    }

    /// The first row of each run of equal keys among `rows` rows, if these are in order.
    pub(crate) fn runs(&self, rows: usize) -> Option<Vec<u32>> {
        if !self.is_likely(rows) {
            return None;
        }
        let is_unordered = AtomicBool::new(false);
        let tasks = rows.div_ceil(TASK_ROWS);
        let parts = (0..tasks).into_par_iter().map(|task| {
            let (first, mut heads, mut seen) = (task * TASK_ROWS, vec![], self.nothing());
            let ordered = !is_unordered.load(Atomic::Relaxed)
                && self.look(first..rows.min(first + TASK_ROWS), &mut seen, |row| {
                    heads.push(row as u32)
                });
            if !ordered {
                is_unordered.store(true, Atomic::Relaxed);
            }
            ordered.then_some((heads, seen))
        });
        let parts: Option<Vec<_>> = parts.collect();
        let (mut heads, mut all) = (vec![], self.nothing());
        for (of_part, seen) in parts? {
            heads.extend(of_part);
            self.add(&seen, &mut all);
        }
        self.allows(&all).then_some(heads)
    }

    /// Whether all of `rows` rows are in order.
    pub(crate) fn holds(&self, rows: usize) -> bool {
        if !self.is_likely(rows) {
            return false;
        }
        let tasks = (0..rows.div_ceil(TASK_ROWS)).into_par_iter();
        let seen = tasks.map(|task| {
            let (first, mut seen) = (task * TASK_ROWS, self.nothing());
            let ordered = self.look(first..rows.min(first + TASK_ROWS), &mut seen, |_| ());
            ordered.then_some(seen)
        });
        let merge = |mut seen: Vec<Steps>, other: Vec<Steps>| {
            self.add(&other, &mut seen);
            self.allows(&seen).then_some(seen)
        };
        seen.try_reduce(|| self.nothing(), merge).is_some()
    }

    /// Whether rows at some places are in order, within a place and from one to the next: few unordered tables pass.
    fn is_likely(&self, rows: usize) -> bool {
        let mut seen = self.nothing();
        let mut last = None;
        for row in places(rows) {
            if let Some(before) = last.replace(row)
                && let Some((column, step)) = self.step(before, row)
            {
                seen[column] |= step;
            }
        }
        self.allows(&seen)
    }

    /// Adds the steps to `rows` from the rows before them, and calls `head` for rows that differ from it; false once they are of no order.
    fn look(&self, rows: Range<usize>, seen: &mut [Steps], mut head: impl FnMut(usize)) -> bool {
        for row in rows {
            let step = match row.checked_sub(1) {
                Some(before) => self.step(before, row),
                None => {
                    head(row);
                    continue;
                }
            };
            if let Some((column, step)) = step {
                head(row);
                if seen[column] & step == 0 {
                    seen[column] |= step;
                    if !self.0[column].allows(seen[column]) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// The first column in which the rows differ, and how; `None` where they are equal.
    fn step(&self, before: usize, row: usize) -> Option<(usize, Steps)> {
        let mut columns = self.0.iter().enumerate();
        columns.find_map(|(i, column)| Some((i, column.step(before, row)?)))
    }

    fn nothing(&self) -> Vec<Steps> {
        vec![0; self.0.len()]
    }

    fn add(&self, more: &[Steps], seen: &mut [Steps]) {
        for (seen, more) in seen.iter_mut().zip(more) {
            *seen |= more;
        }
    }

    fn allows(&self, seen: &[Steps]) -> bool {
        self.0
            .iter()
            .zip(seen)
            .all(|(column, seen)| column.allows(*seen))
    }
}

fn compare(
    key: &ArrayRef,
    zeros: Zeros,
) -> Result<Box<dyn Fn(usize, usize) -> Ordering + Send + Sync>> {
    macro_rules! floats {
        ($t:ty, $word:expr) => {{
            let values = key.as_primitive::<$t>().values().clone();
            Box::new(move |a: usize, b: usize| $word(values[a]).cmp(&$word(values[b])))
        }};
    }
    Ok(match (zeros, key.data_type()) {
        (Zeros::Equal, DataType::Float16) => floats!(Float16Type, float16_word),
        (Zeros::Equal, DataType::Float32) => floats!(Float32Type, float32_word),
        (Zeros::Equal, DataType::Float64) => floats!(Float64Type, float_word),
        _ => make_comparator(key, key, SortOptions::default())?,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array, StringArray};

    use super::*;

    fn runs(keys: &[ArrayRef]) -> Option<Vec<u32>> {
        let order = RowOrder::any(keys, Zeros::Equal).unwrap().unwrap();
        order.runs(keys[0].len())
    }

    fn numbers(values: &[Option<i32>]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    #[test]
    fn equal_keys_of_ordered_rows_are_runs() {
        let up = numbers(&[Some(-3), Some(-3), Some(0), Some(7), Some(7)]);
        assert_eq!(runs(&[up]), Some(vec![0, 2, 3]));
        let down = numbers(&[None, Some(7), Some(7), Some(0), Some(-3)]);
        assert_eq!(runs(&[down]), Some(vec![0, 1, 3, 4]));
        let nulls_inside = numbers(&[Some(1), None, None, Some(2), Some(2)]);
        assert_eq!(runs(&[nulls_inside]), None);
        let returns = numbers(&[Some(1), Some(2), Some(2), Some(1), Some(1)]);
        assert_eq!(runs(&[returns]), None);
        let nothing = numbers(&[None, None, None, None, None]);
        assert_eq!(runs(&[nothing]), Some(vec![0]));
        assert_eq!(runs(&[numbers(&[])]), Some(vec![]));
    }

    #[test]
    fn later_columns_are_ordered_among_equal_ones() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "a", "a", "b", "b"]));
        let down = numbers(&[Some(9), Some(4), None, Some(5), Some(5)]);
        assert_eq!(runs(&[Arc::clone(&text), down]), Some(vec![0, 1, 2, 3]));
        // It descends among the first rows, and ascends among the others.
        let both = numbers(&[Some(9), Some(4), Some(4), Some(5), Some(6)]);
        assert_eq!(runs(&[text, both]), None);
    }

    #[test]
    fn zeros_are_one_group_and_two_values() {
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, 0.0, 1.0, 2.0]));
        assert_eq!(runs(&[Arc::clone(&zeros)]), Some(vec![0, 3, 4]));
        let options = SortOptions {
            descending: false,
            nulls_first: true,
        };
        let order = RowOrder::given(&[(zeros, options)]).unwrap().unwrap();
        assert!(!order.holds(5));
    }

    #[test]
    fn the_order_is_the_given_one() {
        let keys = numbers(&[None, Some(1), Some(1), Some(8), Some(9)]);
        let holds = |descending, nulls_first| {
            let options = SortOptions {
                descending,
                nulls_first,
            };
            let order = RowOrder::given(&[(Arc::clone(&keys), options)]).unwrap();
            order.unwrap().holds(5)
        };
        assert!(holds(false, true));
        assert!(!holds(false, false));
        assert!(!holds(true, true));
    }

    /// Orders that break in one task only, or between two.
    #[test]
    fn every_row_is_looked_at() {
        let rows = 3 * TASK_ROWS + 5;
        let ordered: Vec<i32> = (0..rows as i32).map(|i| i / 3).collect();
        let key = |values: &[i32]| -> ArrayRef { Arc::new(Int32Array::from(values.to_vec())) };
        let heads: Vec<u32> = (0..rows as u32).step_by(3).collect();
        assert_eq!(runs(&[key(&ordered)]), Some(heads));
        for at in [1, TASK_ROWS - 1, TASK_ROWS, 2 * TASK_ROWS + 77, rows - 1] {
            let mut broken = ordered.clone();
            broken[at] -= 2;
            assert_eq!(runs(&[key(&broken)]), None, "{at}");
        }
        // Ascending in one task, descending in the next.
        let both: Vec<i32> = (0..2 * TASK_ROWS as i32)
            .map(|i| (TASK_ROWS as i32 - i).abs())
            .collect();
        assert_eq!(runs(&[key(&both)]), None);
    }
}
