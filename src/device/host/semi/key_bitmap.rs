//! Semi and anti joins by a bitmap of keys (`device/key_bitmap.rs`): the range of keys, the bits of one side's keys,
//! and the other side's rows whose bits are set.

use std::sync::Arc;

use arrow::array::Array;
use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::column::Column;
use crate::device::data::key_bitmap::{Extent, KeyBitmap, KeyRange};
use crate::device::data::keys::Keys;
use crate::device::host::columns::flags;
use crate::device::host::keys::order_keys::{HostKeys, natural};
use crate::error::{BowtieError, Result};

/// Rows that one task handles.
const TASK_ROWS: usize = 1 << 14;

type CancelCheck<'a> = &'a (dyn Fn() -> Result<()> + Sync);

fn rows_of(columns: &[&Column]) -> usize {
    columns.first().map_or(0, |column| column.rows())
}

/// Calls `of` for each task with its first row and its keys of each column.
fn by_task<T: Send>(
    budget: &Arc<Budget>,
    columns: &[&Column],
    check_cancelled: CancelCheck<'_>,
    of: impl Fn(usize, &[HostKeys<'_>]) -> T + Sync,
) -> Result<Vec<T>> {
    let rows = rows_of(columns);
    let tasks: Vec<usize> = (0..rows).step_by(TASK_ROWS).collect();
    tasks
        .into_par_iter()
        .map(|from| {
            check_cancelled()?;
            let len = TASK_ROWS.min(rows - from);
            let keys = columns.iter().map(|column| {
                let part = column.on_host()?.slice(from, len);
                natural(budget, &part)?.ok_or_else(|| {
                    let data_type = part.data_type();
                    BowtieError::Internal(format!("{data_type} values are no addresses"))
                })
            });
            let keys: Vec<Keys> = keys.collect::<Result<_>>()?;
            let keys: Vec<HostKeys<'_>> = keys.iter().map(HostKeys::new).collect::<Result<_>>()?;
            Ok(of(from, &keys))
        })
        .collect()
}

/// The range of the keys of rows.
pub(crate) fn range(
    budget: &Arc<Budget>,
    columns: &[&Column],
    check_cancelled: CancelCheck<'_>,
) -> Result<KeyRange> {
    let none = KeyRange(vec![Extent::NONE; columns.len()]);
    let extents = by_task(budget, columns, check_cancelled, |_, keys| {
        KeyRange(keys.iter().map(extent).collect())
    })?;
    Ok(extents.iter().fold(none, KeyRange::with))
}

fn extent(keys: &HostKeys<'_>) -> Extent {
    let words = keys.words.iter().enumerate();
    let valid = words.filter(|(row, _)| keys.is_valid(*row));
    valid.fold(Extent::NONE, |extent, (_, word)| {
        extent.with(Extent {
            least: *word,
            greatest: *word,
        })
    })
}

/// Calls `each` with every row whose key is in the bitmap's range, and the number of the key's bit.
fn each_place(
    budget: &Arc<Budget>,
    bits: &KeyBitmap,
    columns: &[&Column],
    check_cancelled: CancelCheck<'_>,
    each: impl Fn(usize, usize) + Sync,
) -> Result<()> {
    let digits = bits.digits(columns.len())?;
    let of_rows = |from: usize, keys: &[HostKeys<'_>]| {
        let rows = keys.first().map_or(0, |keys| keys.words.len());
        for row in 0..rows {
            let digits = keys.iter().zip(digits);
            let mut digits = digits.map(|(keys, of)| {
                let digit = match keys.is_valid(row) {
                    true => {
                        let word = keys.words[row];
                        let distance = word.checked_sub(of.least)?;
                        (distance < u64::from(of.values)).then_some(distance)?
                    }
                    false => u64::from(of.null?),
                };
                Some(digit * u64::from(of.stride))
            });
            if let Some(place) = digits.try_fold(0, |place, digit| Some(place + digit?)) {
                each(from + row, place as usize);
            }
        }
    };
    by_task(budget, columns, check_cancelled, of_rows).map(|_| ())
}

/// Sets the bit of every row's key that is in the range of the bitmap.
pub(crate) fn set(
    budget: &Arc<Budget>,
    bits: &KeyBitmap,
    columns: &[&Column],
    check_cancelled: CancelCheck<'_>,
) -> Result<()> {
    let of_keys = bits.bits.0.get::<flags::Flags>()?;
    each_place(budget, bits, columns, check_cancelled, |_, place| {
        of_keys.set(place)
    })
}

/// Sets the flags of the rows whose keys have their bits set. The first row has flag `first`.
pub(crate) fn flag(
    budget: &Arc<Budget>,
    bits: &KeyBitmap,
    columns: &[&Column],
    (flags, first): (&flags::Flags, usize),
    check_cancelled: CancelCheck<'_>,
) -> Result<()> {
    let of_keys = bits.bits.0.get::<flags::Flags>()?;
    each_place(budget, bits, columns, check_cancelled, |row, place| {
        if of_keys.is_set(place) {
            flags.set(first + row);
        }
    })
}

#[cfg(test)]
mod tests;
