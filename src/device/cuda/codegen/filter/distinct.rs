//! The distinct values of an ascending column: the values that begin runs, found and kept in one pass.
//!
//! Tables are often in the order of a key, such as a time or a clustering key. Then equal values are adjacent, and
//! neither a hash table nor a bitmap is needed (\[D\]'s set operations read only sorted relations).

use crate::device::cuda::codegen::filter::deciding::FilterTest;
use crate::device::cuda::codegen::filter::key_bitmap::{kind, loads};
use crate::device::cuda::codegen::launch;
use crate::device::cuda::columns::layout::width;
use crate::device::cuda::columns::minmax::Number;
use crate::device::cuda::device::CudaDevice;
use crate::device::data::column::Column;
use crate::error::Result;

/// The number of places where the host checks the order before a kernel is compiled, and the number of values at each.
/// A column that is sorted only in parts is unlikely to pass.
const PARTS: usize = 4;
const SAMPLE_VALUES: usize = 64;

/// The distinct values of a column of integers without NULLs. `None` for another column, for one that does not
/// ascend, and for so few rows that compiling a kernel takes longer than the other algorithms.
pub(crate) fn distinct_of_ascending(
    device: &CudaDevice,
    column: &Column,
) -> Result<Option<Column>> {
    let rows = column.rows();
    let Some(number) = Number::of(column) else {
        return Ok(None);
    };
    let values = number.values;
    let (true, None, Some(kind), Some(bytes @ (4 | 8))) = (
        rows as u64 >= device.rows_before_compiling,
        &values.valid,
        kind(&number),
        width(&values.data_type),
    ) else {
        return Ok(None);
    };
    if !ascends_in_sample(device, number, rows, bytes)? {
        return Ok(None);
    }
    let kinds = [(kind, false)];
    let program = loads(&kinds);
    let columns = [column];
    let of = (&columns[..], &[values][..], &kinds[..]);
    let kept = launch::kept_in_one_pass(
        device,
        rows,
        0..rows,
        (&program, FilterTest::Run),
        of,
        &columns,
    )?;
    Ok(kept
        .flatten()
        .and_then(|(_, columns)| columns.into_iter().next()))
}

/// Whether consecutive values at some places do not descend.
fn ascends_in_sample(
    device: &CudaDevice,
    number: Number<'_>,
    rows: usize,
    bytes: usize,
) -> Result<bool> {
    let looked_at = SAMPLE_VALUES.min(rows / PARTS);
    let mut values = vec![0; looked_at * bytes];
    let mut before = 0;
    for part in 0..PARTS {
        let from = (rows - looked_at) / (PARTS - 1) * part;
        device
            .stream
            .read_few(&mut values, &number.values.values, from * bytes)?;
        for value in values.chunks_exact(bytes) {
            let word = value
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            let word = word ^ number.sign.unwrap_or_default();
            if word < before {
                return Ok(false);
            }
            before = word;
        }
    }
    Ok(true)
}
