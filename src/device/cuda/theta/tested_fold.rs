//! Folds over the tested matches of ranges, without the matches: of one inequality by a range tree, otherwise as a walk finds them. Ranges, tested keys and a column of the build side enter; a column of
//! folds by probe row leaves. The host fallback is `device/host/theta/tested_fold.rs`.
//!
//! A function returns `None` for a type that has no kernel; the caller uses the host fallback then.

use std::sync::Arc;

use arrow::datatypes::DataType;

use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::keys::order_keys;
use crate::device::cuda::keys::sort::{self, WIDE};
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::range_fold::{
    made, valid_in_order, values_in_order, values_of_rows,
};
use crate::device::cuda::theta::range_tree::{self, EXTREMES, Points, Queries, SUMS_U32, TreeFold};
use crate::device::cuda::theta::sum_kernels::sum_of;
use crate::device::cuda::theta::walked_fold::walked_fold;
use crate::device::cuda::theta::wavelet_tree;
use crate::device::cuda::theta::zone_map::on_gpu;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{Matches, Test};
use crate::device::data::results::Counted;
use crate::device::primitives::device::Device;
use crate::device::primitives::keys::KeyPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::error::Result;
use crate::ir::comparison::Comparison;
use crate::ir::fold::RangeFold;

const WHAT: &str = "folds under a test";

/// For each of `rows` probe rows, a fold of `values` over the matches in its range.
pub(crate) fn fold_tested(
    device: &CudaDevice,
    fold: RangeFold,
    values: &Column,
    matches: Matches<'_>,
    rows: usize,
) -> Result<Option<Column>> {
    let Some(column) = values.on_cuda() else {
        return Ok(None);
    };
    let stream = &device.stream;
    let n = matches.build.len();
    let folding = match n == 0 || matches.ranges.rows() == 0 {
        true => Folding::OfNothing,
        false => Folding::of(stream, matches)?,
    };
    match fold {
        RangeFold::Count => {
            let Some((counts, _)) = folding.counts(device, column, matches, rows)? else {
                return Ok(None);
            };
            Ok(Some(made(DataType::Int64, counts, None, rows)))
        }
        RangeFold::Sum => {
            let Some(sum) = sum_of(&column.data_type) else {
                return Ok(None);
            };
            let out = stream.zeroed(rows * sum.bytes, WHAT)?;
            let ordered = values_in_order(stream, column, &sum, matches.build)?;
            let fold = TreeFold::sums_of(&sum);
            let Some(some) = folding.fold(device, fold, &ordered, matches, &out)? else {
                return Ok(None);
            };
            let some = match column.valid {
                None => Some(bits_of(stream, &some, matches, rows)?),
                Some(_) => folding.counts(device, column, matches, rows)?,
            };
            Ok(some.map(|(_, some)| made(column.data_type.clone(), out, Some(some), rows)))
        }
        RangeFold::Min | RangeFold::Max => {
            let found = stream.filled(rows * 4, 0xFF, WHAT)?;
            let keys = extreme_keys(device, values, column)?;
            let of_rows = memory(&matches.build.rows)?;
            let candidates = candidates(stream, &keys, of_rows, n, fold == RangeFold::Max)?;
            match folding.fold(device, EXTREMES, &candidates, matches, &found)? {
                Some(_) => values_of_rows(stream, column, found, rows).map(Some),
                None => Ok(None),
            }
        }
    }
}

/// How the matches of ranges are folded.
enum Folding<'a> {
    OfNothing,
    /// Under one inequality: by a range tree.
    Tree(Searched<'a>),
    /// As a walk finds them.
    Walk,
}

impl<'a> Folding<'a> {
    /// There are build rows and ranges.
    fn of(stream: &Arc<Stream>, matches: Matches<'a>) -> Result<Self> {
        match (matches.tests, &matches.program) {
            ([test], None) if test.op.is_inequality() => {
                Searched::of(stream, matches, test).map(Self::Tree)
            }
            _ => Ok(Self::Walk),
        }
    }

    /// Stores the folds of `values`, by build position, at the rows of their probe positions. Returns a word for each position, 0 where nothing matches;
    /// `None` if no kernel takes the tests or the program.
    fn fold(
        &self,
        device: &CudaDevice,
        fold: TreeFold,
        values: &Memory,
        matches: Matches<'_>,
        out: &Memory,
    ) -> Result<Option<Memory>> {
        match self {
            Self::OfNothing => {
                let none = device.stream.zeroed(matches.ranges.rows() * 4, WHAT)?;
                Ok(Some(none))
            }
            Self::Tree(searched) => {
                let folds = searched.fold(device, fold, values)?;
                folds.place(&device.stream, memory(&matches.probe.rows)?, out)?;
                Ok(Some(folds.some))
            }
            Self::Walk => walked_fold(device, fold, values, matches, out),
        }
    }

    /// The matches whose value is not NULL by probe row, and a bit for each probe row that has some; `None` as above.
    fn counts(
        &self,
        device: &CudaDevice,
        values: &Values,
        matches: Matches<'_>,
        rows: usize,
    ) -> Result<Option<(Memory, Memory)>> {
        let stream = &device.stream;
        let Some(valid) = values.valid.as_ref().filter(|_| matches.build.len() > 0) else {
            let Counted { counts, .. } = device.count_matches(matches, false)?;
            return bits_of(stream, memory(&counts)?, matches, rows).map(Some);
        };
        let marks = valid_in_order(stream, valid, matches.build)?;
        let counts = stream.zeroed(rows * 4, WHAT)?;
        match self.fold(device, SUMS_U32, &marks, matches, &counts)? {
            Some(_) => {
                let by_position = rows::gather_values(
                    stream,
                    &counts,
                    memory(&matches.probe.rows)?,
                    matches.ranges.rows(),
                    4,
                )?;
                bits_of(stream, &by_position, matches, rows).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// The order keys by which values of a column are compared, and of floats their total order.
pub(crate) fn extreme_keys(device: &CudaDevice, values: &Column, column: &Values) -> Result<Keys> {
    match order_keys::total_keys(&device.stream, column, values.rows())? {
        Some(floats) => Ok(floats),
        None => Ok(device.order_keys(values)?.0),
    }
}

/// Order keys with their rows in the order of `rows`, of which the least is wanted: keys are inverted for the greatest.
pub(crate) fn candidates(
    stream: &Arc<Stream>,
    keys: &Keys,
    rows: &Memory,
    n: usize,
    max: bool,
) -> Result<Memory> {
    let candidates = stream.alloc(n * 16, WHAT)?;
    let args = (
        memory(&keys.values)?.into(),
        valid_memory(keys.valid.as_ref())?.into(),
        rows.into(),
        u32::from(max).into(),
        (&candidates).into(),
        (n as u32).into(),
    );
    // SAFETY: row ids are below the keys' rows; `candidates` holds n keys with rows.
    unsafe { stream.launch(kernels::RANGE_TREE_CANDIDATES, Shape::rows(n), &args)? };
    Ok(candidates)
}

/// The counts of probe positions by row, and a bit for each row whose count is not 0.
fn bits_of(
    stream: &Arc<Stream>,
    counts: &Memory,
    matches: Matches<'_>,
    rows: usize,
) -> Result<(Memory, Memory)> {
    let m = matches.ranges.rows();
    let by_row = stream.zeroed(rows * 8, WHAT)?;
    let some = stream.zeroed(bitmap_bytes(rows), WHAT)?;
    let begins = stream.zeroed(m * 4, WHAT)?;
    let args = (
        None::<&Memory>.into(),
        (&begins).into(),
        counts.into(),
        memory(&matches.probe.rows)?.into(),
        (&by_row).into(),
        (&some).into(),
        (m as u32).into(),
    );
    // SAFETY: without prefix counts only the lengths of the ranges 0 .. count are taken; probe row ids are below `rows`.
    unsafe { stream.launch(kernels::FOLD_RANGE_COUNT, Shape::rows(m), &args)? };
    Ok((by_row, some))
}

/// Build positions in the order of the tested keys, and where each range's bound is among them.
struct Searched<'a> {
    points: Points,
    bounds: Buffer<u32>,
    matches: Matches<'a>,
}

impl<'a> Searched<'a> {
    /// There are build rows and ranges.
    fn of(stream: &Arc<Stream>, matches: Matches<'a>, test: &Test<'_>) -> Result<Self> {
        let (n, m) = (matches.build.len(), matches.ranges.rows());
        sort::check_sortable(n)?;
        let (keys, words) = (&on_gpu(test.build)?.keys, &on_gpu(test.probe)?.keys);
        let keys = memory(keys)?;
        let varying = sort::varying_bits(stream, keys, n)?;
        let (sorted, order) = match sort::sort_pairs(stream, WIDE, keys.into(), None, n, varying)? {
            Some((sorted, order)) => (Some(sorted), Buffer::cuda(order, n)),
            None => (None, rows::sequence(stream, 0, n)?),
        };
        let through = matches!(test.op, Comparison::LtEq | Comparison::Gt);
        let sorted = sorted.as_ref().unwrap_or(keys);
        let bounds = wavelet_tree::bounds(stream, sorted, n, memory(words)?, m, through)?;
        let points = Points { order };
        Ok(Self {
            points: match of_others(test.op) {
                // Greater keys match: those are the first ones from the other end.
                true => points.reversed(stream)?,
                false => points,
            },
            bounds,
            matches,
        })
    }

    /// The folds of `values`, by build position.
    fn fold(
        &self,
        device: &CudaDevice,
        fold: TreeFold,
        values: &Memory,
    ) -> Result<range_tree::Folds> {
        let ranges = self.matches.ranges;
        let queries = Queries {
            lo: memory(&ranges.lo)?,
            hi: memory(&ranges.hi)?,
            bounds: memory(&self.bounds)?,
            of_others: self.matches.tests.iter().any(|test| of_others(test.op)),
            m: ranges.rows(),
        };
        let check_cancelled = || device.check_cancelled();
        range_tree::fold(
            &device.stream,
            fold,
            values,
            &self.points,
            queries,
            &check_cancelled,
        )
    }
}

/// Whether keys match that are not below the bound.
fn of_others(op: Comparison) -> bool {
    matches!(op, Comparison::Gt | Comparison::GtEq)
}
