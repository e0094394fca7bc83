//! The sizes of two lists as sets, and of their overlap, row by row.

use arrow::array::ArrayRef;

use crate::error::Result;
use crate::list_sets::elements::{Element, Elements, Lists};

/// The numbers of distinct elements of the first list, of the second one, and of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub first: u64,
    pub second: u64,
    pub shared: u64,
}

/// A column of lists, or one list for all rows.
pub(crate) struct Argument<'a> {
    pub array: &'a ArrayRef,
    pub one_for_all: bool,
}

/// Calls `each` with the sizes of each of `rows` pairs of lists; `None` if one of them is NULL. Both have elements of
/// the same type.
pub(crate) fn sizes_by_row(
    rows: usize,
    first: &Argument<'_>,
    second: &Argument<'_>,
    mut each: impl FnMut(Option<Sizes>),
) -> Result<()> {
    let lists = [Lists::of(first.array)?, Lists::of(second.array)?];
    let converter = Elements::converter(lists[0].values.data_type())?;
    let elements = [
        Elements::new(&lists[0].values, converter.as_ref())?,
        Elements::new(&lists[1].values, converter.as_ref())?,
    ];
    let mut sets = [vec![], vec![]];
    // A list for all rows is converted to a set once.
    let mut made = [false; 2];
    for row in 0..rows {
        let mut known = true;
        for (i, argument) in [first, second].into_iter().enumerate() {
            let row = if argument.one_for_all { 0 } else { row };
            let Some(span) = lists[i].get(row) else {
                known = false;
                break;
            };
            if made[i] && argument.one_for_all {
                continue;
            }
            made[i] = true;
            let set: &mut Vec<Element<'_>> = &mut sets[i];
            set.clear();
            set.extend(span.map(|at| elements[i].get(at)));
            set.sort_unstable();
            set.dedup();
        }
        each(known.then(|| Sizes {
            first: sets[0].len() as u64,
            second: sets[1].len() as u64,
            shared: shared(&sets[0], &sets[1]),
        }));
    }
    Ok(())
}

/// The number of common elements of two ascending sets.
fn shared<T: Ord>(a: &[T], b: &[T]) -> u64 {
    let (mut i, mut j, mut shared) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let order = a[i].cmp(&b[j]);
        shared += u64::from(order.is_eq());
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    shared
}
