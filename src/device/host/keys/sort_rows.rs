//! Sorts rows by columns, as ORDER BY does: Arrow's row format, whose bytes compare as the values do. Rows that are in order already stay as they are.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::row::{RowConverter, Rows, SortField};
use rayon::slice::ParallelSliceMut;

use crate::device::budget::{Budget, Lease};
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::host::keys::row_order::RowOrder;
use crate::device::primitives::keys::SortKey;
use crate::error::Result;

/// Bytes of a key in the row format, before any is known.
const PLACE_BYTES: u64 = 16;

/// Rows that are converted, or sorted, between two looks at whether the query was cancelled.
const BLOCK_ROWS: usize = 1 << 20;

/// Row ids in the order of `keys`, then by row id; the first `limit` of them. `check` fails once the query is cancelled.
pub(crate) fn sort_rows(
    budget: &Arc<Budget>,
    check: &dyn Fn() -> Result<()>,
    rows: usize,
    keys: &[SortKey<'_>],
    limit: Option<usize>,
) -> Result<Buffer<u32>> {
    check_chunk_rows(rows)?;
    let limit = limit.map_or(rows, |limit| limit.min(rows));
    let lease = budget.lease(limit as u64 * 4, "sorted rows")?;
    let arrays = keys.iter().map(|key| Ok(Arc::clone(key.column.on_host()?)));
    let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
    let _ids = budget.lease(rows as u64 * 4, "sort scratch")?;
    let mut ids: Vec<u32> = (0..rows as u32).collect();
    if !arrays.is_empty() && rows > 1 && limit > 0 && !are_sorted(keys, &arrays, rows)? {
        let fields = keys.iter().zip(&arrays).map(|(key, array)| {
            let data_type = array.data_type().clone();
            SortField::new_with_options(data_type, key.options)
        });
        let converter = RowConverter::new(fields.collect())?;
        let (keys, _leases) = converted(budget, check, &converter, &arrays, rows)?;
        sort_by(&mut ids, &keys, limit, check)?;
    }
    ids.truncate(limit);
    ids.shrink_to_fit();
    Ok(Buffer::host(ids, lease))
}

fn are_sorted(keys: &[SortKey<'_>], arrays: &[ArrayRef], rows: usize) -> Result<bool> {
    let keys = keys.iter().zip(arrays);
    let keys: Vec<_> = keys
        .map(|(key, array)| (Arc::clone(array), key.options))
        .collect();
    let order = RowOrder::given(&keys)?;
    Ok(order.is_some_and(|order| order.holds(rows)))
}

/// The keys of all rows in the row format, converted block by block, with the memory that they take: the next block is reserved before, as long as the
/// mean of those before it.
fn converted(
    budget: &Arc<Budget>,
    check: &dyn Fn() -> Result<()>,
    converter: &RowConverter,
    arrays: &[ArrayRef],
    rows: usize,
) -> Result<(Rows, Vec<Lease>)> {
    let mut keys = converter.empty_rows(rows, 0);
    let (mut leases, mut reserved) = (vec![], 0);
    // A small one first tells how long rows are.
    let mut block = BLOCK_ROWS / 64;
    let mut from = 0;
    while from < rows {
        check()?;
        let some = block.min(rows - from);
        let expected = match from {
            0 => arrays.len() as u64 * some as u64 * PLACE_BYTES,
            _ => keys.size() as u64 * some as u64 / from as u64,
        };
        // The buffer is copied as it grows.
        let wanted = 2 * (keys.size() as u64 + expected);
        if wanted > reserved {
            leases.push(budget.lease(wanted - reserved, "sort scratch")?);
            reserved = wanted;
        }
        let part: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(from, some)).collect();
        converter.append(&mut keys, &part)?;
        from += some;
        block = BLOCK_ROWS;
    }
    Ok((keys, leases))
}

/// Brings the first `limit` ids in order to the front.
fn sort_by(
    ids: &mut [u32],
    keys: &Rows,
    limit: usize,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let order = |a: &u32, b: &u32| -> Ordering {
        let by_keys = keys.row(*a as usize).cmp(&keys.row(*b as usize));
        by_keys.then(a.cmp(b))
    };
    let first = match limit < ids.len() {
        true => ids.select_nth_unstable_by(limit, order).0,
        false => ids,
    };
    for block in first.chunks_mut(BLOCK_ROWS) {
        check()?;
        block.par_sort_unstable_by(order);
    }
    if first.len() > BLOCK_ROWS {
        check()?;
        // Merges the blocks, which are sorted.
        first.par_sort_by(order);
    }
    Ok(())
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
            let sorted = sort_rows(&budget, &|| Ok(()), 5, keys, limit).unwrap();
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
