//! [`ArraysKey`]: a column of a table in memory, by the identity of the arrays that it was made of.

use std::collections::HashSet;
use std::ptr::addr_eq;
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef};

/// Rows of an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrayRows<'a> {
    pub array: &'a ArrayRef,
    pub from: usize,
    pub rows: usize,
}

impl ArrayRows<'_> {
    /// These rows alone.
    pub(crate) fn sliced(&self) -> ArrayRef {
        match self.rows == self.array.len() {
            true => Arc::clone(self.array),
            false => self.array.slice(self.from, self.rows),
        }
    }
}

/// Rows of arrays of a column of a table in memory, by the identity of the arrays.
///
/// A weak reference keeps an array's address from being given to another one. So the same addresses are the same arrays, and arrays
/// never change. When the table drops them, the key [is dead](ArraysKey::is_dead).
#[derive(Debug)]
pub(crate) struct ArraysKey(Box<[KeyRows]>);

#[derive(Debug)]
struct KeyRows {
    array: Weak<dyn Array>,
    from: usize,
    rows: usize,
}

/// Where an array is, as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ArrayAddress(usize);

impl ArrayAddress {
    pub(crate) fn of(array: &ArrayRef) -> Self {
        Self(Arc::as_ptr(array).cast::<()>().addr())
    }
}

/// The first and the last array with their first rows, and the number of arrays and rows: finds a key, or one that differs in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ArraysHandle {
    first: (ArrayAddress, usize),
    last: (ArrayAddress, usize),
    arrays: usize,
    rows: usize,
}

impl ArraysHandle {
    /// The handle of a column of these rows; `None` without any array.
    pub(crate) fn of<'a>(parts: impl Iterator<Item = ArrayRows<'a>>) -> Option<Self> {
        let mut parts = parts;
        let begin = |part: &ArrayRows<'_>| (ArrayAddress::of(part.array), part.from);
        let first = parts.next()?;
        let handle = Self {
            first: begin(&first),
            last: begin(&first),
            arrays: 1,
            rows: first.rows,
        };
        Some(parts.fold(handle, |handle, part| Self {
            last: begin(&part),
            arrays: handle.arrays + 1,
            rows: handle.rows + part.rows,
            ..handle
        }))
    }

    pub(crate) fn first(self) -> ArrayAddress {
        self.first.0
    }
}

impl ArraysKey {
    pub(crate) fn of<'a>(parts: impl Iterator<Item = ArrayRows<'a>>) -> Self {
        let parts = parts.map(|part| KeyRows {
            array: Arc::downgrade(part.array),
            from: part.from,
            rows: part.rows,
        });
        Self(parts.collect())
    }

    /// Whether it is the key of just these rows.
    pub(crate) fn is_of<'a>(&self, parts: impl Iterator<Item = ArrayRows<'a>>) -> bool {
        let mut known = self.0.iter();
        let mut parts = parts;
        let same = parts.all(|part| {
            known.next().is_some_and(|known| {
                addr_eq(known.array.as_ptr(), Arc::as_ptr(part.array))
                    && (known.from, known.rows) == (part.from, part.rows)
            })
        });
        same && known.next().is_none()
    }

    /// Whether its table is gone, so that nobody can ask for it. Only the first and the last array are looked at: a table drops all of them.
    pub(crate) fn is_dead(&self) -> bool {
        let ends = self.0.first().into_iter().chain(self.0.last());
        ends.into_iter().any(|part| part.array.strong_count() == 0)
    }

    /// Whether it has rows of one of these arrays.
    pub(crate) fn has_any_of(&self, arrays: &HashSet<ArrayAddress>) -> bool {
        let address = |part: &KeyRows| ArrayAddress(part.array.as_ptr().cast::<()>().addr());
        self.0.iter().any(|part| arrays.contains(&address(part)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;

    use super::*;

    fn array() -> ArrayRef {
        Arc::new(Int32Array::from(vec![1, 2, 3]))
    }

    fn rows<'a>(arrays: &'a [&'a ArrayRef]) -> impl Iterator<Item = ArrayRows<'a>> {
        arrays.iter().map(|array| ArrayRows {
            array,
            from: 0,
            rows: array.len(),
        })
    }

    #[test]
    fn the_same_arrays_have_the_same_key_and_equal_ones_do_not() {
        let (a, b, c) = (array(), array(), array());
        let slice = a.slice(0, 3);
        let columns = [
            vec![&a],
            vec![&b],
            vec![&slice],
            vec![&a, &b],
            vec![&b, &a],
            vec![&a, &b, &c],
            vec![&a, &c, &c],
            vec![],
        ];
        for (i, one) in columns.iter().enumerate() {
            for (j, other) in columns.iter().enumerate() {
                let key = ArraysKey::of(rows(one));
                assert_eq!(key.is_of(rows(other)), i == j, "{i} {j}");
            }
        }
        // The handle does not tell them apart that differ in between.
        let handle = |i: usize| ArraysHandle::of(rows(&columns[i]));
        assert_eq!(handle(5), handle(6));
        assert!(handle(3) != handle(4) && handle(0) != handle(2));
        assert_eq!(handle(7), None);
    }

    #[test]
    fn rows_of_an_array_are_columns_of_their_own() {
        let array = array();
        let ranges = [(0, 3), (0, 2), (1, 2), (2, 1)];
        let column = |(from, rows)| {
            let array = &array;
            std::iter::once(ArrayRows { array, from, rows })
        };
        for (i, one) in ranges.into_iter().enumerate() {
            for (j, other) in ranges.into_iter().enumerate() {
                assert_eq!(ArraysKey::of(column(one)).is_of(column(other)), i == j);
                let handles = [one, other].map(|range| ArraysHandle::of(column(range)));
                assert_eq!(handles[0] == handles[1], i == j);
            }
        }
        let [last] = [column(ranges[2]).next().unwrap().sliced()];
        assert_eq!(last.as_ref(), array.slice(1, 2).as_ref());
    }

    #[test]
    fn a_key_dies_with_its_arrays_and_their_address_is_not_used_again() {
        let (first, second) = (array(), array());
        let key = ArraysKey::of(rows(&[&first, &second]));
        assert!(!key.is_dead());
        drop(first);
        assert!(key.is_dead());
        let others: Vec<_> = (0..1000).map(|_| array()).collect();
        let mut others = others.iter();
        assert!(!others.any(|other| key.is_of(rows(&[other, &second]))));
    }
}
