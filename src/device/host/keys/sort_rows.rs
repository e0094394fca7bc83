//! Sorts rows by columns, as ORDER BY does: Arrow's row format, whose bytes compare as the values do.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::row::{RowConverter, Rows, SortField};
use rayon::slice::ParallelSliceMut;

use crate::device::budget::Budget;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::primitives::keys::SortKey;
use crate::device::row_width::mean_bytes;
use crate::error::Result;

/// Bytes of a row's place in the row format, and of its id.
const PLACE_BYTES: u64 = 12;

/// Row ids in the order of `keys`, then by row id; the first `limit` of them.
pub(crate) fn sort_rows(
    budget: &Arc<Budget>,
    rows: usize,
    keys: &[SortKey<'_>],
    limit: Option<usize>,
) -> Result<Buffer<u32>> {
    check_chunk_rows(rows)?;
    let limit = limit.map_or(rows, |limit| limit.min(rows));
    let lease = budget.lease(limit as u64 * 4, "sorted rows")?;
    let arrays = keys.iter().map(|key| Ok(Arc::clone(key.column.on_host()?)));
    let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
    let mut row_bytes = PLACE_BYTES;
    for array in &arrays {
        row_bytes += mean_bytes(array)? + 1;
    }
    let _scratch = budget.lease(rows as u64 * row_bytes, "sort scratch")?;
    let fields = keys.iter().zip(&arrays).map(|(key, array)| {
        let data_type = array.data_type().clone();
        SortField::new_with_options(data_type, key.options)
    });
    let converter = RowConverter::new(fields.collect())?;
    let mut ids: Vec<u32> = (0..rows as u32).collect();
    if !arrays.is_empty() && rows > 1 && limit > 0 {
        sort_by(&mut ids, &converter.convert_columns(&arrays)?, limit);
    }
    ids.truncate(limit);
    ids.shrink_to_fit();
    Ok(Buffer::host(ids, lease))
}

/// Brings the first `limit` ids in order to the front.
fn sort_by(ids: &mut [u32], rows: &Rows, limit: usize) {
    let order = |a: &u32, b: &u32| -> Ordering {
        let by_keys = rows.row(*a as usize).cmp(&rows.row(*b as usize));
        by_keys.then(a.cmp(b))
    };
    let first = match limit < ids.len() {
        true => ids.select_nth_unstable_by(limit, order).0,
        false => ids,
    };
    first.par_sort_unstable_by(order);
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, StringArray};
    use arrow::compute::SortOptions;

    use super::*;
    use crate::device::data::column::Column;

    #[test]
    fn the_first_key_counts_most_and_ties_keep_their_order() {
        let budget = Budget::new(u64::MAX);
        let column = |array: ArrayRef| Column::host(array, budget.lease(0, "test").unwrap());
        let t = column(Arc::new(StringArray::from(vec![
            Some("b"),
            None,
            Some("a"),
            Some("b"),
            Some("b"),
        ])));
        let f = column(Arc::new(Float64Array::from(vec![0.0, 1.0, 2.0, -0.0, 0.0])));
        let key = |column, descending, nulls_first| SortKey {
            column,
            options: SortOptions {
                descending,
                nulls_first,
            },
        };
        let sorted = |keys: &[SortKey<'_>], limit| {
            let sorted = sort_rows(&budget, 5, keys, limit).unwrap();
            sorted.on_host().unwrap().to_vec()
        };
        let by_both = [key(&t, true, false), key(&f, false, true)];
        assert_eq!(sorted(&by_both, None), [3, 0, 4, 2, 1]);
        assert_eq!(sorted(&by_both, Some(2)), [3, 0]);
        assert_eq!(sorted(&[key(&t, false, true)], None), [1, 2, 0, 3, 4]);
        assert_eq!(sorted(&[], Some(9)), [0, 1, 2, 3, 4]);
        assert_eq!(sorted(&by_both, Some(0)), [0u32; 0]);
    }
}
