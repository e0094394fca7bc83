//! Means and squared deviations of groups, by two passes over the rows: the means of the first pass are the centers of
//! the second.
//!
//! ```text
//! ids ─► group_dense: counts, sums ─► means (on the host) ─► group_dense: x - mean, (x - mean)² ─► corrected (on the host)
//! ```
//!
//! Both passes use the same ids, numbered by hashing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};

use crate::device::cuda::aggregate::accumulate::accumulator::{Accumulator, Kind, Update};
use crate::device::cuda::aggregate::accumulate::added;
use crate::device::cuda::aggregate::accumulate::launches;
use crate::device::cuda::columns::bytes;
use crate::device::cuda::columns::fixed_width::Values;
use crate::device::cuda::columns::transfer;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::column::Column;
use crate::device::host::aggregate::fold::corrected;
use crate::device::primitives::transfer::TransferPrimitives;
use crate::error::Result;

/// The accumulators of the first pass that hold the counts and the sums of `values`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moments<'a> {
    pub(crate) values: &'a Values,
    /// The index of the accumulator that counts the values.
    pub(crate) count: usize,
    /// The index of the accumulator that sums the values.
    pub(crate) sum: usize,
}

impl<'a> Moments<'a> {
    /// Appends the accumulators of the first pass to `all`.
    pub(crate) fn push(values: &'a Values, all: &mut Vec<Accumulator<'a>>) -> Self {
        let count = all.len();
        all.push(Accumulator {
            values: None,
            ..wanted(Update::Count, values, None)
        });
        all.push(wanted(Update::SumF64, values, None));
        Self {
            values,
            count,
            sum: count + 1,
        }
    }

    /// Whether these are the moments of this very column.
    pub(crate) fn is_of(&self, values: &Values) -> bool {
        std::ptr::eq(self.values, values)
    }
}

fn wanted<'a>(update: Update, values: &'a Values, centers: Option<&'a Memory>) -> Accumulator<'a> {
    Accumulator {
        update,
        kind: Kind::F64,
        values: Some(&values.values),
        valid: values.valid.as_ref(),
        centers,
    }
}

/// The means and the sums of squared deviations of each group's values; NULL for groups without values. `outs`:
/// results of the first pass.
pub(crate) fn moments(
    device: &CudaDevice,
    of: &Moments<'_>,
    rows: usize,
    (ids, groups): (&Memory, usize),
    outs: &[Memory],
) -> Result<[Option<Column>; 2]> {
    let stream = &device.stream;
    let counts: ScalarBuffer<i64> = numbers(&outs[of.count], groups)?;
    let sums: ScalarBuffer<f64> = numbers(&outs[of.sum], groups)?;
    let means: Vec<f64> = sums
        .iter()
        .zip(&counts)
        .map(|(sum, count)| sum / *count as f64)
        .collect();
    let means = ScalarBuffer::from(means);
    let centers = stream.send(means.inner().as_slice(), "means")?;
    let all = [Update::Deviation, Update::SquaredDeviation]
        .map(|update| wanted(update, of.values, Some(&centers)));
    let outs = added::outs(stream, &all, groups)?;
    launches::accumulate_dense(stream, ids.into(), rows, groups, &all, &outs, true)?;

    let deviations: ScalarBuffer<f64> = numbers(&outs[0], groups)?;
    let squares: ScalarBuffer<f64> = numbers(&outs[1], groups)?;
    let m2: Vec<f64> = (0..groups)
        .map(|group| corrected(counts[group], deviations[group], squares[group]))
        .collect();
    let is_valid = NullBuffer::from_iter(counts.iter().map(|count| *count > 0));
    Ok([
        Some(sent(
            device,
            Float64Array::new(means, Some(is_valid.clone())),
        )?),
        Some(sent(device, Float64Array::new(m2.into(), Some(is_valid)))?),
    ])
}

fn numbers<T: arrow::datatypes::ArrowNativeType>(
    words: &Memory,
    len: usize,
) -> Result<ScalarBuffer<T>> {
    let bytes = bytes::download_bytes(words, len * size_of::<T>(), None)?;
    Ok(ScalarBuffer::new(bytes, 0, len))
}

fn sent(device: &CudaDevice, array: Float64Array) -> Result<Column> {
    let array: ArrayRef = Arc::new(array);
    let column = transfer::upload(
        &device.stream,
        std::slice::from_ref(&array),
        array.data_type(),
    )?;
    device.receive(&column)?;
    Ok(column)
}
