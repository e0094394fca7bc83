//! Folds over the probe rows in whose ranges a build row is (`kernels/theta/fold.cu`). Ranges and a column of the probe side enter; a column of
//! folds by build row leaves. The host fallback is `device/host/theta/cover_fold.rs`.
//!
//! A count, or a wrapping sum, of a position is a prefix sum of differences, so it is the sum of a range that begins at the first one: what is left to
//! do are the kernels of folds over ranges. Sums of floats and extremes are never subtracted: the ranges over a position are those, in the order of
//! their begins, that begin up to it, and of these the ones that end behind it: folds under a test, with the sides' parts exchanged.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32, INCLUSIVE_U32};
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::sort::{self, NARROW};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::range_fold::{made, values_of_rows};
use crate::device::cuda::theta::range_tree::{self, EXTREMES, Folds, Points, Queries, TreeFold};
use crate::device::cuda::theta::sum_kernels::sum_of;
use crate::device::cuda::theta::tested_fold::{candidates, extreme_keys};
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::matches::Matches;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};

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

/// The sum of the values over each of `rows` build rows; NULL if there is none. `None` for values in host memory.
pub(crate) fn cover_sum(
    device: &CudaDevice,
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
    let stream = &device.stream;
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let prefixes = prefixes(stream, n)?;
    let (_, some) = counts_of_covers(stream, column.valid.as_ref(), matches, &prefixes, rows)?;
    let out = stream.zeroed(rows * sum.bytes, "sums of covers")?;
    let Some((scan, of_prefix, steps_kernel)) = sum.by_prefix else {
        if n > 0 && m > 0 {
            let covers = Covers::of(stream, matches)?;
            let ordered = stream.alloc(m * sum.bytes, "sums of covers")?;
            let args = (
                (&column.values).into(),
                column.valid.as_ref().into(),
                (&covers.rows).into(),
                (&ordered).into(),
                (m as u32).into(),
            );
            // SAFETY: row ids are below the column's rows; `ordered` holds m values.
            unsafe { stream.launch(sum.in_order, Shape::rows(m), &args)? };
            let folds = covers.fold(device, TreeFold::sums_of(&sum), &ordered)?;
            folds.place(stream, memory(&matches.build.rows)?, &out)?;
        }
        return Ok(Some(made(column.data_type.clone(), out, Some(some), rows)));
    };
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

/// The least (`max`: greatest) of the values over each of `rows` build rows; NULL if there is none. `None` for values in host memory.
pub(crate) fn cover_extreme(
    device: &CudaDevice,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
    max: bool,
) -> Result<Option<Column>> {
    let Some(column) = values.on_cuda() else {
        return Ok(None);
    };
    let stream = &device.stream;
    let found = stream.filled(rows * 4, 0xFF, "extremes of covers")?;
    if matches.build.len() > 0 && matches.ranges.rows() > 0 {
        let keys = extreme_keys(device, values, column)?;
        let covers = Covers::of(stream, matches)?;
        let candidates = candidates(stream, &keys, &covers.rows, matches.ranges.rows(), max)?;
        let folds = covers.fold(device, EXTREMES, &candidates)?;
        folds.place(stream, memory(&matches.build.rows)?, &found)?;
    }
    values_of_rows(stream, column, found, rows).map(Some)
}

/// Ranges in the order of their begins, as the points of a range tree whose keys are their ends.
struct Covers {
    points: Points,
    /// The probe row of each range.
    rows: Memory,
    /// Of each build position: 0, the ranges that begin up to it, and those that end up to it.
    begins: Memory,
    begun: Memory,
    ended: Memory,
    positions: usize,
}

impl Covers {
    /// There are build rows and ranges.
    fn of(stream: &Arc<Stream>, matches: Matches<'_>) -> Result<Self> {
        let what = "covers";
        let (n, m) = (matches.build.len(), matches.ranges.rows());
        sort::check_sortable(m)?;
        let (lo, hi) = (memory(&matches.ranges.lo)?, memory(&matches.ranges.hi)?);
        // The bits of a position, or of n itself.
        let varying = u64::MAX >> (n as u64).leading_zeros();
        let sorted = |words: &Memory| -> Result<Memory> {
            let sorted = sort::sort_pairs(stream, NARROW, words.into(), None, m, varying)?;
            let sorted = sorted.map(|(_, places)| places);
            sorted.ok_or_else(|| BowtieError::Internal("positions without a bit".into()))
        };
        let order = sorted(lo)?;
        let rows = rows::gather_values(stream, memory(&matches.probe.rows)?, &order, m, 4)?;
        let by_end = sorted(&rows::gather_values(stream, hi, &order, m, 4)?)?;
        let (begins, ends) = (
            stream.zeroed((n + 1) * 4, what)?,
            stream.zeroed((n + 1) * 4, what)?,
        );
        let args = (
            lo.into(),
            hi.into(),
            (&begins).into(),
            (&ends).into(),
            (m as u32).into(),
        );
        // SAFETY: ranges end at n at most, and both hold n + 1 words.
        unsafe { stream.launch(kernels::RANGE_TREE_ENDS, Shape::rows(m), &args)? };
        let points = Points {
            order: Buffer::cuda(by_end, m),
        };
        Ok(Self {
            points: points.reversed(stream)?,
            rows,
            begun: scan::scan(stream, INCLUSIVE_U32, &begins, n, what)?,
            ended: scan::scan(stream, INCLUSIVE_U32, &ends, n, what)?,
            begins: stream.zeroed(n * 4, what)?,
            positions: n,
        })
    }

    /// The folds of `values`, by range, over each build position.
    fn fold(&self, device: &CudaDevice, fold: TreeFold, values: &Memory) -> Result<Folds> {
        let queries = Queries {
            lo: &self.begins,
            hi: &self.begun,
            bounds: &self.ended,
            of_others: true,
            m: self.positions,
        };
        let check_cancelled = || device.check_cancelled();
        let stream = &device.stream;
        range_tree::fold(
            stream,
            fold,
            values,
            &self.points,
            queries,
            &check_cancelled,
        )
    }
}
