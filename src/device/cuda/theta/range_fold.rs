//! Aggregates over ranges without materialised matches (`kernels/theta/fold.cu`). Resident values and ranges, or
//! weights, enter; a column of aggregates leaves. The host fallback is `device/host/theta/range_fold.rs`.
//!
//! A function returns `None` for a type that has no kernel; the caller uses the host fallback then.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32};
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::sum_kernels::{Sum, Whole, sum_of};
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::Matches;
use crate::device::data::ranges::OrderedRows;
use crate::error::{BowtieError, Result};

/// Positions, or nodes, that are aggregated to one node of the next level.
const FAN_OUT: usize = 16;

/// `values[i] * weights[i]`; NULL where the value is NULL or the weight is 0.
pub(crate) fn weigh(
    stream: &Arc<Stream>,
    values: &Column,
    weights: &Buffer<u32>,
) -> Result<Option<Column>> {
    let rows = values.rows();
    let Some((column, sum)) = values
        .on_cuda()
        .and_then(|v| Some((v, sum_of(&v.data_type)?)))
    else {
        return Ok(None);
    };
    let out = stream.alloc(rows * sum.bytes, "weighted values")?;
    let valid = stream.alloc(bitmap_bytes(rows), "weighted values")?;
    let args = (
        (&column.values).into(),
        column.valid.as_ref().into(),
        memory(weights)?.into(),
        (&out).into(),
        (&valid).into(),
        (rows as u32).into(),
    );
    // SAFETY: values, validity and weights are by row; `out` and `valid` hold as many values and bits.
    unsafe { stream.launch(sum.weigh, Shape::rows(rows), &args)? };
    Ok(Some(made(column.data_type.clone(), out, Some(valid), rows)))
}

/// The weight of each row whose value is not NULL, 0 for others; without `values` of each row.
pub(crate) fn weigh_count(
    stream: &Arc<Stream>,
    values: Option<&Column>,
    weights: &Buffer<u32>,
) -> Result<Option<Column>> {
    let valid = match values.map(Column::on_cuda) {
        None => None,
        Some(Some(values)) => values.valid.as_ref(),
        Some(None) => return Ok(None),
    };
    let rows = weights.len();
    let out = stream.alloc(rows * 8, "weighted counts")?;
    let args = (
        valid.into(),
        memory(weights)?.into(),
        (&out).into(),
        (rows as u32).into(),
    );
    // SAFETY: validity and weights are by row; `out` holds as many words.
    unsafe { stream.launch(kernels::FOLD_WEIGH_COUNT, Shape::rows(rows), &args)? };
    Ok(Some(made(DataType::Int64, out, None, rows)))
}

/// The sum of a whole column, in one row; NULL if it has no value.
pub(crate) fn sum(stream: &Arc<Stream>, states: &Column) -> Result<Option<Column>> {
    let Some((column, sum)) = states
        .on_cuda()
        .and_then(|v| Some((v, sum_of(&v.data_type)?)))
    else {
        return Ok(None);
    };
    let Some(whole) = sum.whole else {
        return Ok(None);
    };
    let rows = states.rows();
    // The sum, then the number of values.
    let out = stream.zeroed(sum.bytes + 8, "sums")?;
    let mut blocks = Shape::rows(rows);
    blocks.blocks = blocks.blocks.min(1024);
    match whole {
        Whole::Floats => {
            let parts = stream.alloc(1024 * 8, "sums")?;
            let counts = stream.alloc(1024 * 8, "sums")?;
            let args = (
                (&column.values).into(),
                column.valid.as_ref().into(),
                (&parts).into(),
                (&counts).into(),
                (rows as u32).into(),
            );
            // Always 1024 blocks, so that the order of additions depends on the rows alone.
            let all = Shape::blocks_of(1024, 1, 256);
            // SAFETY: a value and a bit per row; a word per block.
            unsafe { stream.launch(kernels::FOLD_SUM_F64, all, &args)? };
            let args = (
                (&parts).into(),
                (&counts).into(),
                (&out).into(),
                out.word(sum.bytes / 4)?.into(),
                1024u32.into(),
            );
            // SAFETY: `out` holds the sum and the number.
            unsafe {
                stream.launch(
                    kernels::FOLD_SUM_F64_TOTAL,
                    Shape::blocks_of(1, 1, 256),
                    &args,
                )?
            };
        }
        Whole::Integers(kernel) => {
            let args = (
                (&column.values).into(),
                column.valid.as_ref().into(),
                (&out).into(),
                (rows as u32).into(),
            );
            // SAFETY: a value and a bit per row; `out` holds the sum and the number, both 0.
            unsafe { stream.launch(kernel, blocks, &args)? };
        }
    }
    let mut bytes = vec![0; sum.bytes + 8];
    stream.read_few(&mut bytes, &out, 0)?;
    let count = &bytes[sum.bytes..];
    let some = count.iter().any(|byte| *byte != 0);
    let valid = stream.send(&u32::from(some).to_le_bytes(), "sums")?;
    Ok(Some(made(column.data_type.clone(), out, Some(valid), 1)))
}

/// The values of a column that is summed, in build order; 0 where it is NULL.
pub(super) fn values_in_order(
    stream: &Arc<Stream>,
    values: &Values,
    sum: &Sum,
    build: &OrderedRows,
) -> Result<Memory> {
    let n = build.len();
    let ordered = stream.alloc(n * sum.bytes, "values in order")?;
    if n > 0 {
        let args = (
            (&values.values).into(),
            values.valid.as_ref().into(),
            memory(&build.rows)?.into(),
            (&ordered).into(),
            (n as u32).into(),
        );
        // SAFETY: row ids are below the column's rows; `ordered` holds n values.
        unsafe { stream.launch(sum.in_order, Shape::rows(n), &args)? };
    }
    Ok(ordered)
}

/// A word for each row in build order: 1 where it is valid, 0 for others. There is a build row.
pub(super) fn valid_in_order(
    stream: &Arc<Stream>,
    valid: &Memory,
    build: &OrderedRows,
) -> Result<Memory> {
    let n = build.len();
    let marks = stream.alloc(n * 4, "validity in order")?;
    let args = (
        valid.into(),
        memory(&build.rows)?.into(),
        (&marks).into(),
        (n as u32).into(),
    );
    // SAFETY: row ids are below the validity's bits; `marks` holds n words.
    unsafe { stream.launch(kernels::FOLD_VALID_IN_ORDER, Shape::rows(n), &args)? };
    Ok(marks)
}

/// Prefix counts of the values that are not NULL, in build order; `None` if the column has no validity bits.
fn valid_prefix(
    stream: &Arc<Stream>,
    values: &Values,
    build: &OrderedRows,
) -> Result<Option<Memory>> {
    let n = build.len();
    let Some(valid) = values.valid.as_ref().filter(|_| n > 0) else {
        return Ok(None);
    };
    let marks = valid_in_order(stream, valid, build)?;
    scan::scan(stream, EXCLUSIVE_U32, &marks, n, "range counts").map(Some)
}

/// The number of values that are not NULL by probe row, and a bit for each probe row that has some.
fn counts_of_ranges(
    stream: &Arc<Stream>,
    values: &Values,
    matches: Matches<'_>,
    rows: usize,
) -> Result<(Memory, Memory)> {
    let prefix = valid_prefix(stream, values, matches.build)?;
    let counts = stream.zeroed(rows * 8, "range counts")?;
    let some = stream.zeroed(bitmap_bytes(rows), "range counts")?;
    let m = matches.ranges.rows();
    let args = (
        prefix.as_ref().into(),
        memory(&matches.ranges.lo)?.into(),
        memory(&matches.ranges.hi)?.into(),
        memory(&matches.probe.rows)?.into(),
        (&counts).into(),
        (&some).into(),
        (m as u32).into(),
    );
    // SAFETY: ranges are inside of the prefix counts; probe row ids are below `rows`.
    unsafe { stream.launch(kernels::FOLD_RANGE_COUNT, Shape::rows(m), &args)? };
    Ok((counts, some))
}

/// The number of values that are not NULL in the range of each probe row, of `rows` rows.
pub(crate) fn range_count(
    stream: &Arc<Stream>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Option<Column>> {
    let Some(values) = values.on_cuda() else {
        return Ok(None);
    };
    let (counts, _) = counts_of_ranges(stream, values, matches, rows)?;
    Ok(Some(made(DataType::Int64, counts, None, rows)))
}

/// The sum of the values in the range of each probe row, of `rows` rows; NULL if there is none.
pub(crate) fn range_sum(
    stream: &Arc<Stream>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Option<Column>> {
    let Some((column, sum)) = values
        .on_cuda()
        .and_then(|v| Some((v, sum_of(&v.data_type)?)))
    else {
        return Ok(None);
    };
    let (_, some) = counts_of_ranges(stream, column, matches, rows)?;
    let out = stream.zeroed(rows * sum.bytes, "range sums")?;
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    if n > 0 && m > 0 {
        let ordered = values_in_order(stream, column, &sum, matches.build)?;
        let [lo, hi, rows] = [
            memory(&matches.ranges.lo)?,
            memory(&matches.ranges.hi)?,
            memory(&matches.probe.rows)?,
        ];
        match sum.by_prefix {
            Some((scan, kernel, _)) => {
                let prefix = scan::scan(stream, scan, &ordered, n, "range sums")?;
                let args = (
                    (&prefix).into(),
                    lo.into(),
                    hi.into(),
                    rows.into(),
                    (&out).into(),
                    (m as u32).into(),
                );
                // SAFETY: ranges end at n at most, and there are n + 1 prefix sums.
                unsafe { stream.launch(kernel, Shape::rows(m), &args)? };
            }
            None => fold_floats(stream, ordered, n, [lo, hi, rows], &out, m)?,
        }
    }
    Ok(Some(made(column.data_type.clone(), out, Some(some), rows)))
}

/// Sums of ranges of `n` floats by a tree of partial sums, written to `out` by probe row.
fn fold_floats(
    stream: &Arc<Stream>,
    ordered: Memory,
    n: usize,
    [lo, hi, rows]: [&Memory; 3],
    out: &Memory,
    m: usize,
) -> Result<()> {
    let mut levels = vec![ordered];
    for (len, nodes) in tree_levels(n) {
        let level = stream.alloc(nodes * 8, "range sums")?;
        let below = &levels[levels.len() - 1];
        let args = (below.into(), (len as u32).into(), (&level).into());
        // SAFETY: the level below holds `len` values, this one a sixteenth of it, rounded up.
        unsafe {
            stream.launch(
                kernels::FOLD_TREE_LEVEL_F64,
                Shape::blocks_of(len, 1024, 64),
                &args,
            )?
        };
        levels.push(level);
    }
    let table = addresses(stream, &levels)?;
    let args = (
        (&table).into(),
        (levels.len() as u32).into(),
        lo.into(),
        hi.into(),
        rows.into(),
        out.into(),
        (m as u32).into(),
    );
    // SAFETY: the table holds the address of every level; the levels live until the launched work is done.
    unsafe { stream.launch(kernels::FOLD_TREE_RANGE_F64, Shape::each(m), &args) }
}

/// The least (`max`: greatest) value of each range, by probe row of `rows` rows; NULL if there is none. `keys` are
/// the order keys of `values`.
pub(crate) fn range_extreme(
    stream: &Arc<Stream>,
    values: &Values,
    keys: &Keys,
    matches: Matches<'_>,
    rows: usize,
    max: bool,
) -> Result<Column> {
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    // All bits set: no row, for ranges without a value.
    let found = stream.filled(rows * 4, 0xFF, "range extremes")?;
    if n > 0 && m > 0 {
        let mut key_levels = vec![stream.alloc(n * 8, "range extremes")?];
        let mut row_levels = vec![stream.alloc(n * 4, "range extremes")?];
        let args = (
            memory(&keys.values)?.into(),
            valid_memory(keys.valid.as_ref())?.into(),
            memory(&matches.build.rows)?.into(),
            u32::from(max).into(),
            (&key_levels[0]).into(),
            (&row_levels[0]).into(),
            (n as u32).into(),
        );
        // SAFETY: row ids are below the keys' rows; both levels hold n words.
        unsafe { stream.launch(kernels::FOLD_EXTREME_IN_ORDER, Shape::rows(n), &args)? };
        for (level, (len, nodes)) in tree_levels(n).enumerate() {
            let up_keys = stream.alloc(nodes * 8, "range extremes")?;
            let up_rows = stream.alloc(nodes * 4, "range extremes")?;
            let args = (
                (&key_levels[level]).into(),
                (&row_levels[level]).into(),
                (len as u32).into(),
                (&up_keys).into(),
                (&up_rows).into(),
            );
            let shape = Shape::blocks_of(len, 1024, 64);
            // SAFETY: the level below holds `len` candidates, this one a sixteenth of it, rounded up.
            unsafe { stream.launch(kernels::FOLD_TREE_LEVEL_EXTREME, shape, &args)? };
            key_levels.push(up_keys);
            row_levels.push(up_rows);
        }
        let tables = (
            addresses(stream, &key_levels)?,
            addresses(stream, &row_levels)?,
        );
        let args = (
            (&tables.0).into(),
            (&tables.1).into(),
            (key_levels.len() as u32).into(),
            memory(&matches.ranges.lo)?.into(),
            memory(&matches.ranges.hi)?.into(),
            memory(&matches.probe.rows)?.into(),
            (&found).into(),
            (m as u32).into(),
        );
        // SAFETY: the tables hold the address of every level; probe row ids are below `rows`.
        unsafe { stream.launch(kernels::FOLD_TREE_RANGE_EXTREME, Shape::each(m), &args)? };
    }
    values_of_rows(stream, values, found, rows)
}

/// The values of `rows` row ids, each of a row that is valid; NULL where `found` says no row.
pub(crate) fn values_of_rows(
    stream: &Arc<Stream>,
    values: &Values,
    found: Memory,
    rows: usize,
) -> Result<Column> {
    let some = rows::bits_of_groups(stream, &found, rows)?;
    let found = Buffer::cuda(found, rows);
    let extremes = rows::gather(stream, values, &found)?;
    // A NULL is never found, so each probe row with a found row has a value.
    match extremes.into_cuda() {
        Some(extremes) => Ok(made(
            values.data_type.clone(),
            extremes.values,
            Some(some),
            rows,
        )),
        None => Err(BowtieError::Internal("a GPU's column on the host".into())),
    }
}

/// Uploads the addresses of buffers for a kernel.
fn addresses(stream: &Arc<Stream>, memories: &[Memory]) -> Result<Memory> {
    let addresses: Vec<u8> = memories
        .iter()
        .flat_map(|memory| memory.pointer().to_le_bytes())
        .collect();
    stream.send(&addresses, "a fold's levels")
}

/// The levels of an aggregation tree above `n` values: the number of nodes below, and of the level.
fn tree_levels(n: usize) -> impl Iterator<Item = (usize, usize)> {
    std::iter::successors(Some(n), |len| Some(len.div_ceil(FAN_OUT)))
        .take_while(|len| *len > FAN_OUT)
        .map(|len| (len, len.div_ceil(FAN_OUT)))
}

/// A resident column from the buffers that a kernel wrote.
pub(super) fn made(
    data_type: DataType,
    values: Memory,
    valid: Option<Memory>,
    rows: usize,
) -> Column {
    let values = Values {
        data_type,
        values,
        valid,
        original: None,
        made: None,
    };
    Column::cuda(values, rows)
}
