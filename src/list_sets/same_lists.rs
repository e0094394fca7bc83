//! Whether two columns have the same lists, row by row, as the sides of a self join do.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use rayon::prelude::*;

/// Bytes, or offsets, that a task compares.
const TASK: usize = 1 << 18;

/// Whether the columns are known to be the same. Lists of fixed-width values are compared, on all cores and up to the
/// first difference. Other lists are known to be the same only if they are one array.
pub(crate) fn are_same_lists(a: &ArrayRef, b: &ArrayRef) -> bool {
    if a.data_type() != b.data_type() || a.len() != b.len() {
        return false;
    }
    if a.to_data().ptr_eq(&b.to_data()) {
        return true;
    }
    match a.data_type() {
        DataType::List(_) => same::<i32>(a, b),
        DataType::LargeList(_) => same::<i64>(a, b),
        _ => false,
    }
}

fn same<O: OffsetSizeTrait>(a: &ArrayRef, b: &ArrayRef) -> bool {
    if a.logical_nulls() != b.logical_nulls() {
        return false;
    }
    let [(of_a, a), (of_b, b)] = [a, b].map(|array| {
        let lists = array.as_list::<O>();
        (
            lists.offsets(),
            values::<O>(lists.values(), lists.offsets()),
        )
    });
    if a.nulls() != b.nulls() || !same_lengths(of_a, of_b) {
        return false;
    }
    let (a, b) = (a.to_data(), b.to_data());
    let (Some(width), false) = (a.data_type().primitive_width(), a.ptr_eq(&b)) else {
        return a.ptr_eq(&b);
    };
    let bytes = |data: &arrow::array::ArrayData| {
        let (from, len) = (data.offset() * width, data.len() * width);
        data.buffers()[0].slice_with_length(from, len)
    };
    let (a, b) = (bytes(&a), bytes(&b));
    let tasks = a.par_chunks(TASK).zip(b.par_chunks(TASK));
    a.len() == b.len() && tasks.all(|(a, b)| a == b)
}

/// The values of lists with these offsets.
fn values<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &OffsetBuffer<O>) -> ArrayRef {
    let (from, to) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    values.slice(from, to - from)
}

fn same_lengths<O: OffsetSizeTrait>(a: &OffsetBuffer<O>, b: &OffsetBuffer<O>) -> bool {
    let (first_a, first_b) = (a[0], b[0]);
    let tasks = a.par_chunks(TASK).zip(b.par_chunks(TASK));
    tasks
        .flat_map_iter(|(a, b)| a.iter().zip(b))
        .all(|(a, b)| *a - first_a == *b - first_b)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, ListArray, StringArray};
    use arrow::buffer::NullBuffer;
    use arrow::compute::{cast, concat};
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    fn lists(lists: &[Option<&[i32]>]) -> ArrayRef {
        let lists = lists
            .iter()
            .map(|list| list.map(|list| list.iter().map(|e| Some(*e))));
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
    }

    #[test]
    fn same_lists_in_other_memory() {
        let all = lists(&[
            Some(&[1, 2]),
            None,
            Some(&[]),
            Some(&[3]),
            Some(&[1, 2]),
            None,
            Some(&[]),
            Some(&[3]),
        ]);
        let (a, b) = (all.slice(0, 4), all.slice(4, 4));
        let again = concat(&[&b.slice(0, 1), &b.slice(1, 3)]).unwrap();
        for other in [&a, &b, &again] {
            assert!(are_same_lists(&a, other));
            let large = DataType::new_large_list(DataType::Int32, true);
            let [a, other] = [&a, other].map(|array| cast(array, &large).unwrap());
            assert!(are_same_lists(&a, &other));
        }
    }

    #[test]
    fn any_difference() {
        let a = lists(&[Some(&[1, 2]), None, Some(&[]), Some(&[3])]);
        for other in [
            lists(&[Some(&[1, 2]), None, Some(&[]), Some(&[4])]),
            lists(&[Some(&[1, 2]), None, Some(&[3]), Some(&[])]),
            lists(&[Some(&[1, 2]), Some(&[]), Some(&[]), Some(&[3])]),
            lists(&[Some(&[1, 2]), None, Some(&[])]),
            lists(&[Some(&[1]), None, Some(&[2]), Some(&[3])]),
            cast(&a, &DataType::new_list(DataType::UInt32, true)).unwrap(),
        ] {
            assert!(!are_same_lists(&a, &other), "{other:?}");
        }
        let field = Arc::new(Field::new_list_field(DataType::Int32, true));
        let of = |values: ArrayRef| -> ArrayRef {
            let offsets = OffsetBuffer::from_lengths([2]);
            Arc::new(ListArray::new(Arc::clone(&field), offsets, values, None))
        };
        let plain: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let nulls = NullBuffer::from(vec![true, false]);
        let null: ArrayRef = Arc::new(Int32Array::new(vec![1, 2].into(), Some(nulls)));
        assert!(!are_same_lists(&of(plain), &of(null)));
    }

    #[test]
    fn a_difference_far_behind() {
        let long: Vec<i32> = (0..1_000_000).collect();
        let mut other = long.clone();
        other[999_999] = 7;
        assert!(are_same_lists(
            &lists(&[Some(&long)]),
            &lists(&[Some(&long)])
        ));
        assert!(!are_same_lists(
            &lists(&[Some(&long)]),
            &lists(&[Some(&other)])
        ));
    }

    #[test]
    fn text_is_the_same_where_it_is_one_array() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let of = |values: &ArrayRef| -> ArrayRef {
            let offsets = OffsetBuffer::from_lengths([1, 1]);
            Arc::new(ListArray::new(
                Arc::clone(&field),
                offsets,
                Arc::clone(values),
                None,
            ))
        };
        let one = of(&text);
        assert!(are_same_lists(&one, &one.slice(0, 2)) && are_same_lists(&one, &of(&text)));
        let other: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        assert!(!are_same_lists(&one, &of(&other)));
    }
}
