//! Semi and anti joins of two presorted sides, by the merge of `equi/presorted.rs`: the probe rows with or without a match leave.

use std::sync::Arc;

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::column_sources::{ColumnSources, Sources};
use crate::device::cuda::equi::materialize::{self, Output, descriptors};
use crate::device::cuda::equi::presorted::{Kernels, Sides, cut_sides, walk};
use crate::device::cuda::equi::{output, partition};
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::column::Column;
use crate::device::data::results::Kept;
use crate::device::presorted::PresortedKeys;
use crate::error::Result;
use crate::ir::strategies::Materialization;

/// The sides, the cuts, whether rows without a match are kept, probe columns and their number, and the output: keys, the most rows, the
/// number of rows, and the status.
type OfKeep = (U64, U32, U64, U32, U64, U32, U64, U32, U64, U64, U64, U64);

const KEEP: Kernels<OfKeep> = [
    kernels::MERGE32_KEEP_I32,
    kernels::MERGE32_KEEP_U32,
    kernels::MERGE64_KEEP_I64,
    kernels::MERGE64_KEEP_U64,
];

/// The probe rows with a match (`matched`), or those without one, of presorted sides: their number and the columns
/// `kept`; an inner `None` if all rows are kept. The outer `None` if keys are not sorted or have no kernel. Build
/// keys may have duplicates.
pub(crate) fn merged_rows(
    device: &CudaDevice,
    keys: PresortedKeys<'_>,
    matched: bool,
    kept: &[&Column],
) -> Result<Option<Kept>> {
    let stream = &device.stream;
    let Some((sides, cuts)) = cut_sides(device, keys)? else {
        return Ok(None);
    };
    let origins = ColumnSources::of(stream, kept, Some(keys.probe), Materialization::Gftr)?;
    let none = ColumnSources::NONE;
    let capacity = (sides.probe_rows, sides.width);
    let output = materialize::allocate_matches(stream, &none, &[], &origins, kept, capacity)?;
    let rows = walk_to_keep(
        stream,
        &sides,
        &cuts,
        matched,
        &origins.in_row_order(kept),
        &output,
    )?;
    let Some(rows) = rows else {
        return Ok(None);
    };
    if rows == sides.probe_rows {
        return Ok(Some(None));
    }
    let made =
        output::materialize_output(device, (&none, &[]), (&origins, kept), Some(output), rows)?;
    Ok(Some(Some((rows, made.probe))))
}

/// Launches the semi join (or the anti join, unless `matched`): the number of kept rows; `None` if keys are not
/// sorted.
fn walk_to_keep(
    stream: &Arc<Stream>,
    sides: &Sides<'_>,
    cuts: &Memory,
    matched: bool,
    probe: &Sources<'_>,
    output: &Output,
) -> Result<Option<usize>> {
    let columns = match probe.is_empty() {
        true => None,
        false => Some(partition::upload_descriptors(
            stream,
            &descriptors(probe, &output.probe),
        )?),
    };
    let (build_keys, n, probe_keys, m) = sides.args();
    let (keys, capacity, rows, status) = output.args()?;
    let args = (
        build_keys,
        n,
        probe_keys,
        m,
        cuts.into(),
        u32::from(!matched).into(),
        columns.as_ref().into(),
        (probe.len() as u32).into(),
        keys,
        capacity,
        rows,
        status,
    );
    // SAFETY: columns have as many rows as the probe side's keys.
    unsafe { walk(stream, KEEP, sides, &args, output) }
}
