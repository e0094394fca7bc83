//! The sizes of arrays: bytes, and elements of lists.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch, make_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;

/// Bytes of the rows of a batch, even if its arrays are slices of larger buffers.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(array_bytes).sum()
}

/// Bytes of the rows of an array, even if it is a slice of a larger buffer.
pub(crate) fn array_bytes(array: &ArrayRef) -> usize {
    if let Some(width) = array.data_type().primitive_width() {
        let bits = usize::from(array.nulls().is_some());
        return array.len() * width + array.len().div_ceil(8) * bits;
    }
    let own = array
        .to_data()
        .get_slice_memory_size()
        .unwrap_or_else(|_| array.get_array_memory_size());
    own + referred_bytes(array)
}

/// Bytes of the buffers that views refer to, at any depth. Bytes that are inlined in a view do not count.
fn referred_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => array.as_binary_view().total_buffer_bytes_used(),
        DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) => {
            inside(array).iter().map(referred_bytes).sum()
        }
        other if other.is_nested() => inside(array).iter().map(referred_bytes).sum(),
        _ => 0,
    }
}

/// The number of elements of the rows of an array, at the list level that has most.
pub(crate) fn elements_of(array: &ArrayRef) -> usize {
    let data_type = array.data_type();
    // A dictionary's values do not multiply with its rows.
    if !data_type.is_nested() || matches!(data_type, DataType::Dictionary(_, _)) {
        return 0;
    }
    let of_child = |child: &ArrayRef| child.len().max(elements_of(child));
    inside(array).iter().map(of_child).max().unwrap_or(0)
}

/// The child arrays that the rows of an array refer to.
fn inside(array: &ArrayRef) -> Vec<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            vec![seen(list.values(), list.offsets())]
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            vec![seen(list.values(), list.offsets())]
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            let offsets = map.offsets();
            let columns = map.entries().columns().iter();
            columns.map(|column| seen(column, offsets)).collect()
        }
        DataType::FixedSizeList(_, _) => vec![Arc::clone(array.as_fixed_size_list().values())],
        DataType::Struct(_) => array.as_struct().columns().to_vec(),
        _ => {
            let data = array.to_data();
            data.child_data().iter().cloned().map(make_array).collect()
        }
    }
}

/// The values between the first and the last offset.
fn seen<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &OffsetBuffer<O>) -> ArrayRef {
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    values.slice(first, last - first)
}

#[cfg(test)]
pub(crate) mod tests {
    use arrow::array::{ListArray, StringViewArray};
    use arrow::datatypes::Field;

    use super::*;

    pub(crate) fn list(values: ArrayRef, lengths: impl IntoIterator<Item = usize>) -> ArrayRef {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        Arc::new(ListArray::new(
            field,
            OffsetBuffer::from_lengths(lengths),
            values,
            None,
        ))
    }

    #[test]
    fn what_views_inside_of_lists_refer_to_is_counted() {
        let long = "x".repeat(1_000);
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![long.as_str(); 8]));
        let lists = list(views, [2, 6]);
        assert!((8_000..8_500).contains(&array_bytes(&lists)));
        let nested = list(Arc::clone(&lists), [1, 1]);
        assert!((8_000..8_500).contains(&array_bytes(&nested)));
        assert!((2_000..2_500).contains(&array_bytes(&lists.slice(0, 1))));
    }
}
