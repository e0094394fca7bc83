//! The host fallback of matches in ranges under tests and a program. Resident matches enter and are downloaded; counts per probe position, or row ids of
//! matches, leave, on the GPU again.

use crate::device::cuda::columns::to_host;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::fallback;
use crate::device::cuda::theta::zone_map::on_gpu;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::keys::Keys;
use crate::device::data::matches::{BoundProgram, Matches, Test};
use crate::device::data::ranges::{OrderedRows, Pairs};
use crate::device::data::results::Counted;
use crate::device::data::structures::ZonedKeys;
use crate::device::host::device::HostDevice;
use crate::device::primitives::rows::RowPrimitives;
use crate::device::primitives::theta::ThetaPrimitives;
use crate::error::Result;

/// [`ThetaPrimitives::count_matches`] by the host fallback.
pub(crate) fn count_on_host(
    device: &CudaDevice,
    matches: Matches<'_>,
    exists_only: bool,
) -> Result<Counted> {
    let Counted { counts, by } = tested_on_host(device, matches, |fallback, matches| {
        fallback.count_matches(matches, exists_only)
    })?;
    Ok(by.of(to_host::words_from_host(device, &counts, "match counts")?))
}

/// [`ThetaPrimitives::expand`] by the host fallback.
pub(crate) fn expand_on_host(
    device: &CudaDevice,
    matches: Matches<'_>,
    offsets: &Buffer<u64>,
    from: u64,
    len: usize,
) -> Result<Pairs> {
    let offsets = to_host::host_words(device, offsets)?;
    let pairs = tested_on_host(device, matches, |fallback, matches| {
        fallback.expand(matches, &offsets, from, len)
    })?;
    Ok(Pairs {
        probe: to_host::words_from_host(device, &pairs.probe, "join output rows")?,
        build: to_host::words_from_host(device, &pairs.build, "join output rows")?,
    })
}

/// Downloads `matches`, and calls `with` with the fallback and them.
pub(crate) fn tested_on_host<T>(
    device: &CudaDevice,
    matches: Matches<'_>,
    with: impl FnOnce(&HostDevice, Matches<'_>) -> Result<T>,
) -> Result<T> {
    let build = fallback::ordered_rows_to_host(device, matches.build)?;
    let probe = fallback::ordered_rows_to_host(device, matches.probe)?;
    let ranges = fallback::ranges_to_host(device, matches.ranges)?;
    let zoned = |zoned: &ZonedKeys| -> Result<ZonedKeys> {
        let zoned = on_gpu(zoned)?;
        // The keys are in build order already.
        let keys = Keys {
            values: to_host::host_words(device, &zoned.keys)?,
            valid: None,
        };
        let in_order = OrderedRows {
            rows: device.fallback.sequence(0, keys.rows())?,
            keys: None,
            segments: None,
        };
        device.fallback.zone_keys(&keys, &in_order)
    };
    let zones = matches
        .tests
        .iter()
        .map(|test| Ok((zoned(test.build)?, zoned(test.probe)?)))
        .collect::<Result<Vec<_>>>()?;
    let tests: Vec<Test<'_>> = matches
        .tests
        .iter()
        .zip(&zones)
        .map(|(test, (build, probe))| Test {
            op: test.op,
            build,
            probe,
        })
        .collect();
    let columns = |columns: &[Column]| -> Result<Vec<Column>> {
        columns
            .iter()
            .map(|c| to_host::column_to_host(device, c))
            .collect()
    };
    let program_columns = match &matches.program {
        Some(program) => Some((columns(program.build)?, columns(program.probe)?)),
        None => None,
    };
    let program = match (&matches.program, &program_columns) {
        (Some(program), Some((build, probe))) => Some(BoundProgram {
            build,
            probe,
            ..*program
        }),
        _ => None,
    };
    with(
        &device.fallback,
        Matches {
            build: &build,
            probe: &probe,
            ranges: &ranges,
            tests: &tests,
            program,
        },
    )
}
