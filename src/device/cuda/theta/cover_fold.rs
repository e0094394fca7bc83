//! Folds over the probe rows in whose ranges a build row is (`kernels/theta/fold.cu`). Ranges and a column of the probe side enter; a column of
//! folds by build row leaves. The host fallback is `device/host/theta/cover_fold.rs`.
//!
//! The fold of a position is a prefix sum of differences, so it is the sum of a range that begins at the first one: what is left to do are
//! the kernels of folds over ranges.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::range_fold::made;
use crate::device::cuda::theta::sum_kernels::sum_of;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::matches::Matches;
use crate::error::Result;

/// The prefix of each build position: it begins at the first one, and ends behind the position.
struct Prefixes {
    begins: Memory,
    ends: Buffer<u32>,
}

fn prefixes(stream: &Arc<Stream>, n: usize) -> Result<Prefixes> {
    Ok(Prefixes {
        begins: stream.zeroed(n * 4, "covers")?,
        ends: rows::sequence(stream, 1, n)?,
    })
}

/// The number of values that are not NULL over each build row, of `rows` rows, and a bit for each row that has some.
fn counts_of_covers(
    stream: &Arc<Stream>,
    valid: Option<&Memory>,
    matches: Matches<'_>,
    prefixes: &Prefixes,
    rows: usize,
) -> Result<(Memory, Memory)> {
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let counts = stream.zeroed(rows * 8, "counts of covers")?;
    let some = stream.zeroed(bitmap_bytes(rows), "counts of covers")?;
    if n == 0 || m == 0 {
        return Ok((counts, some));
    }
    let steps = stream.zeroed((n + 1) * 4, "counts of covers")?;
    let args = (
        valid.into(),
        memory(&matches.ranges.lo)?.into(),
        memory(&matches.ranges.hi)?.into(),
        memory(&matches.probe.rows)?.into(),
        (&steps).into(),
        (m as u32).into(),
    );
    // SAFETY: probe row ids are below the validity's bits; ranges end at n at most, and `steps` holds n + 1 words.
    unsafe { stream.launch(kernels::FOLD_COVER_STEPS_COUNT, Shape::rows(m), &args)? };
    let sums = scan::scan(stream, EXCLUSIVE_U32, &steps, n, "counts of covers")?;
    let args = (
        Some(&sums).into(),
        (&prefixes.begins).into(),
        memory(&prefixes.ends)?.into(),
        memory(&matches.build.rows)?.into(),
        (&counts).into(),
        (&some).into(),
        (n as u32).into(),
    );
    // SAFETY: prefixes end at n at most, and there are n + 1 sums; build row ids are below `rows`.
    unsafe { stream.launch(kernels::FOLD_RANGE_COUNT, Shape::rows(n), &args)? };
    Ok((counts, some))
}

/// The number of values that are not NULL over each of `rows` build rows; `None` for values in host memory.
pub(crate) fn cover_count(
    stream: &Arc<Stream>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Option<Column>> {
    let Some(values) = values.on_cuda() else {
        return Ok(None);
    };
    let prefixes = prefixes(stream, matches.build.len())?;
    let (counts, _) = counts_of_covers(stream, values.valid.as_ref(), matches, &prefixes, rows)?;
    Ok(Some(made(DataType::Int64, counts, None, rows)))
}

/// The sum of the values over each of `rows` build rows; NULL if there is none. `None` for floats, and for values in host memory.
pub(crate) fn cover_sum(
    stream: &Arc<Stream>,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Option<Column>> {
    let sum = values
        .on_cuda()
        .and_then(|v| Some((v, sum_of(&v.data_type)?)));
    let Some((column, sum)) = sum else {
        return Ok(None);
    };
    let Some((scan, of_prefix, steps_kernel)) = sum.by_prefix else {
        return Ok(None);
    };
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let prefixes = prefixes(stream, n)?;
    let (_, some) = counts_of_covers(stream, column.valid.as_ref(), matches, &prefixes, rows)?;
    let out = stream.zeroed(rows * sum.bytes, "sums of covers")?;
    if n > 0 && m > 0 {
        let steps = stream.zeroed((n + 1) * sum.bytes, "sums of covers")?;
        let args = (
            (&column.values).into(),
            column.valid.as_ref().into(),
            memory(&matches.ranges.lo)?.into(),
            memory(&matches.ranges.hi)?.into(),
            memory(&matches.probe.rows)?.into(),
            (&steps).into(),
            (m as u32).into(),
        );
        // SAFETY: probe row ids are below the column's rows; ranges end at n at most, and `steps` holds n + 1 values.
        unsafe { stream.launch(steps_kernel, Shape::rows(m), &args)? };
        let sums = scan::scan(stream, scan, &steps, n, "sums of covers")?;
        let args = (
            (&sums).into(),
            (&prefixes.begins).into(),
            memory(&prefixes.ends)?.into(),
            memory(&matches.build.rows)?.into(),
            (&out).into(),
            (n as u32).into(),
        );
        // SAFETY: prefixes end at n at most, and there are n + 1 sums; build row ids are below `rows`.
        unsafe { stream.launch(of_prefix, Shape::rows(n), &args)? };
    }
    Ok(Some(made(column.data_type.clone(), out, Some(some), rows)))
}
