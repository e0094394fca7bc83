//! The host fallback: primitives of a GPU that run on the host. Arguments are downloaded, results uploaded.
//!
//! It serves types that are not stored on the GPU and structures without a kernel. Primitives with a kernel for the
//! given types do not use it.

use crate::device::cuda::columns::bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::runtime::access::{memory, valid_memory};
use crate::device::data::buffer::{Bits, Buffer};
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::Matches;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::results::Aggregated;
use crate::device::host::device::HostDevice;
use crate::device::primitives::aggregate::AggregatePrimitives;
use crate::device::primitives::keys::{KeyPrimitives, SortKey};
use crate::error::Result;
use crate::ir::fold::Fold;
use crate::ir::strategies::Grouping;

/// Downloads keys and their validity.
pub(crate) fn keys_to_host(device: &CudaDevice, keys: &Keys) -> Result<Keys> {
    let rows = keys.rows();
    Ok(Keys {
        values: to_host::host_words(device, &keys.values)?,
        valid: match &keys.valid {
            Some(bits) => Some(to_host::bits_to_host(bits, rows)?),
            None => None,
        },
    })
}

/// Uploads keys and their validity.
pub(crate) fn keys_from_host(device: &CudaDevice, keys: &Keys) -> Result<Keys> {
    Ok(Keys {
        values: to_host::words_from_host(device, &keys.values, "order keys")?,
        valid: match &keys.valid {
            Some(bits) => Some(Bits::cuda(bytes::upload_bits(
                &device.stream,
                bits.on_host()?,
                "validity",
            )?)),
            None => None,
        },
    })
}

/// Downloads ordered rows with their keys and segments.
pub(crate) fn ordered_rows_to_host(
    device: &CudaDevice,
    build: &OrderedRows,
) -> Result<OrderedRows> {
    Ok(OrderedRows {
        rows: to_host::host_words(device, &build.rows)?,
        keys: build
            .keys
            .as_ref()
            .map(|keys| to_host::host_words(device, keys))
            .transpose()?,
        segments: build
            .segments
            .as_ref()
            .map(|s| to_host::host_words(device, s))
            .transpose()?,
    })
}

/// Downloads ranges.
pub(crate) fn ranges_to_host(device: &CudaDevice, ranges: &Ranges) -> Result<Ranges> {
    Ok(Ranges {
        lo: to_host::host_words(device, &ranges.lo)?,
        hi: to_host::host_words(device, &ranges.hi)?,
    })
}

/// Runs a fold over ranges, without tests, by the fallback.
pub(crate) fn fold_on_host(
    device: &CudaDevice,
    values: &Column,
    matches: Matches<'_>,
    fold: impl FnOnce(&HostDevice, &Column, Matches<'_>) -> Result<Column>,
) -> Result<Column> {
    let values = to_host::column_to_host(device, values)?;
    let build = ordered_rows_to_host(device, matches.build)?;
    let probe = ordered_rows_to_host(device, matches.probe)?;
    let ranges = ranges_to_host(device, matches.ranges)?;
    let matches = Matches {
        build: &build,
        probe: &probe,
        ranges: &ranges,
        tests: &[],
        program: None,
    };
    to_host::column_from_host(device, &fold(&device.fallback, &values, matches)?)
}

/// Sorts rows by columns by the fallback.
pub(crate) fn sort_rows_on_host(
    device: &CudaDevice,
    rows: usize,
    keys: &[SortKey<'_>],
    limit: Option<usize>,
) -> Result<Buffer<u32>> {
    let columns = keys
        .iter()
        .map(|key| to_host::column_to_host(device, key.column));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let keys: Vec<SortKey<'_>> = columns
        .iter()
        .zip(keys)
        .map(|(column, key)| SortKey { column, ..*key })
        .collect();
    let sorted = device.fallback.sort_rows(rows, &keys, limit)?;
    to_host::words_from_host(device, &sorted, "sorted rows")
}

/// Grouped aggregation by the fallback.
pub(crate) fn aggregate_on_host(
    device: &CudaDevice,
    rows: usize,
    keys: &[&Column],
    folds: &[(Fold, Option<&Column>)],
    wanted: Grouping,
) -> Result<Aggregated> {
    let keys: Vec<Column> = keys
        .iter()
        .map(|key| to_host::column_to_host(device, key))
        .collect::<Result<_>>()?;
    let values: Vec<Option<Column>> = folds
        .iter()
        .map(|(_, values)| {
            values
                .map(|values| to_host::column_to_host(device, values))
                .transpose()
        })
        .collect::<Result<_>>()?;
    let keys: Vec<&Column> = keys.iter().collect();
    let folds: Vec<(Fold, Option<&Column>)> = folds
        .iter()
        .zip(&values)
        .map(|((fold, _), values)| (*fold, values.as_ref()))
        .collect();
    let Aggregated {
        groups,
        keys,
        states,
        by,
    } = device.fallback.aggregate(rows, &keys, &folds, wanted)?;
    let up = |columns: &[Column]| {
        let columns = columns
            .iter()
            .map(|column| to_host::column_from_host(device, column));
        columns.collect::<Result<_>>()
    };
    Ok(Aggregated {
        groups,
        keys: up(&keys)?,
        states: up(&states)?,
        by,
    })
}

/// The keys of at most `sample` rows, spread evenly.
pub(crate) fn sample(device: &CudaDevice, keys: &Keys, sample: usize) -> Result<Keys> {
    let rows = keys.rows();
    let count = rows.min(sample);
    let spread: Vec<u32> = (0..count)
        .map(|i| (i as u128 * rows as u128 / count as u128) as u32)
        .collect();
    let bytes: Vec<u8> = spread.iter().flat_map(|row| row.to_le_bytes()).collect();
    let ids = device.stream.send(&bytes, "a sample")?;
    let words = rows::gather_values(&device.stream, memory(&keys.values)?, &ids, count, 8)?;
    let valid = match valid_memory(keys.valid.as_ref())? {
        Some(valid) => Some(Bits::cuda(rows::gather_bits(
            &device.stream,
            valid,
            &ids,
            count,
        )?)),
        None => None,
    };
    keys_to_host(
        device,
        &Keys {
            values: Buffer::cuda(words, count),
            valid,
        },
    )
}
