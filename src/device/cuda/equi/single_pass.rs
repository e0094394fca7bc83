//! Inner equi-joins that materialise their columns in one pass (\[W\] 4.1), any number of columns. Unique build keys:
//! in the pass that finds the matches (`kernels/equi/partition/equi_part_join.cuh`, `kernels/equi/equi_index.cuh`).
//! Sort-merge: from both sides sorted, duplicate keys included.
//!
//! Columns of 4, 8 or 16 bytes are carried, with the validity of those that have NULLs; partitioned joins carry them through
//! the partition passes (GFTR). For other columns the join carries row ids, by which they are gathered at the end (GFUR).

use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::choose::{has_duplicates, materialization};
use crate::device::cuda::equi::column_sources::{ColumnSources, carried_payload};
use crate::device::cuda::equi::index;
use crate::device::cuda::equi::key_words::{self, Addresses, EquiKeys, KeyEncoding, are_values};
use crate::device::cuda::equi::materialize;
use crate::device::cuda::equi::output;
use crate::device::cuda::equi::partition::{self, Depth, Partitioned, partition_bits};
use crate::device::cuda::equi::presorted;
use crate::device::cuda::equi::sample::{self, LEAST_ROWS};
use crate::device::cuda::equi::tables::{self, DirectTable, HashTable};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::rates::memory_rates;
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::data::column::Column;
use crate::device::data::matches::FirstProbe;
use crate::device::data::results::Paired;
use crate::error::{BowtieError, IfItFits as _, Result};
use crate::ir::strategies::{EquiStrategy, Materialization};

/// A build side, ready for any number of probe batches.
#[derive(Debug)]
pub(crate) struct EquiBuild {
    keying: KeyEncoding,
    table: Table,
    origins: ColumnSources,
    materialization: Materialization,
    /// Build keys are known to have duplicates (by a merge or a sample), or the sides are too long for a merge of
    /// unique keys: the next probe batch does not try it again.
    skip_presorted: AtomicBool,
}

/// The build rows by strategy.
#[derive(Debug)]
enum Table {
    Direct(DirectTable),
    Hash(HashTable),
    Partitioned {
        side: Partitioned,
        /// First row of each of the `2^bits` partitions, and the end.
        starts: Memory,
        bits: u32,
    },
    /// The build side sorted by mixed keys.
    SortMerge(Partitioned),
}

impl EquiBuild {
    /// The strategy that was chosen.
    pub(crate) fn strategy(&self) -> EquiStrategy {
        match self.table {
            Table::Direct(_) => EquiStrategy::Direct,
            Table::Hash(_) => EquiStrategy::Hash,
            Table::Partitioned { .. } => EquiStrategy::PartitionedHash,
            Table::SortMerge(_) => EquiStrategy::SortMerge,
        }
    }

    /// The materialization that was chosen.
    pub(crate) fn materialization(&self) -> Materialization {
        self.materialization
    }
}

/// Prepares the build side with key columns `base` and `payload`. `first` is the first probe batch, which a sample
/// may read. `None` if there are no build rows, or if build keys are not unique and the strategy needs that: then
/// the matches are found as ranges.
pub(crate) fn prepare_build(
    device: &CudaDevice,
    base: &[&Column],
    null_equal: bool,
    wanted: Option<EquiStrategy>,
    payload: &[&Column],
    materialization: Option<Materialization>,
    first: Option<FirstProbe<'_>>,
) -> Result<Option<EquiBuild>> {
    let rows = base.first().map_or(0, |column| column.rows());
    if rows == 0 {
        return Ok(None);
    }
    let (keys, keying, addresses, strategy) = index::keys_for(device, base, null_equal, wanted)?;
    let (sampled, materialization) = match (strategy, first) {
        (EquiStrategy::PartitionedHash, Some(first)) => by_sample(
            device,
            (&keys, &keying, payload),
            first,
            (wanted, materialization),
        )?,
        _ => (strategy, materialization.unwrap_or(Materialization::Gftr)),
    };
    // A sample chooses sort-merge only if it shows duplicate build keys.
    let skip_presorted = sampled == EquiStrategy::SortMerge && strategy != sampled;
    let strategy = sampled;
    let origins = ColumnSources::of(&device.stream, payload, None, materialization)?;
    let stream = &device.stream;
    let table = match strategy {
        EquiStrategy::Direct => {
            let (table, unique) = tables::direct_table(stream, &keys, addresses)?;
            unique.then_some(Table::Direct(table))
        }
        EquiStrategy::Hash => match tables::hash_table(stream, &keys)? {
            Some((table, unique)) => unique.then_some(Table::Hash(table)),
            None => materialize::partition_side(stream, &keys, &origins, payload, Depth::Whole)?
                .map(Table::SortMerge),
        },
        EquiStrategy::PartitionedHash => {
            let bits = partition_bits(rows);
            let depth = Depth::Bits(bits);
            match materialize::partition_side(stream, &keys, &origins, payload, depth)? {
                None => None,
                Some(side) => {
                    let starts = partition::partition_starts(
                        stream, &side.keys, side.width, side.rows, bits,
                    )?;
                    Some(Table::Partitioned { side, starts, bits })
                }
            }
        }
        EquiStrategy::SortMerge => {
            materialize::partition_side(stream, &keys, &origins, payload, Depth::Whole)?
                .map(Table::SortMerge)
        }
    };
    Ok(table.map(|table| EquiBuild {
        keying,
        table,
        origins,
        materialization,
        skip_presorted: AtomicBool::new(skip_presorted),
    }))
}

/// Strategy and materialization of a partitioned join by a sample, where the options (`wanted`) leave them open.
fn by_sample(
    device: &CudaDevice,
    (keys, keying, payload): (&EquiKeys<'_>, &KeyEncoding, &[&Column]),
    first: FirstProbe<'_>,
    wanted: (Option<EquiStrategy>, Option<Materialization>),
) -> Result<(EquiStrategy, Materialization)> {
    let by_default = (
        EquiStrategy::PartitionedHash,
        wanted.1.unwrap_or(Materialization::Gftr),
    );
    if let (Some(_), Some(_)) = wanted {
        return Ok(by_default);
    }
    let (KeyEncoding::Values(_), [key]) = (keying, first.keys) else {
        return Ok(by_default);
    };
    let probe = key_words::equi_keys_in(device, keying, first.keys)?;
    // Every choice is correct, so a lack of memory for the sample is no error.
    let sampled = sample::sample_keys(&device.stream, keys, &probe).if_it_fits()?;
    let Some(sampled) = sampled.flatten() else {
        return Ok(by_default);
    };
    if wanted.0.is_none() && has_duplicates(sampled) {
        return Ok((EquiStrategy::SortMerge, by_default.1));
    }
    match (wanted.1, sampled.matches) {
        (None, Some(matches)) => {
            let build = carried_payload(payload, None, keys.rows);
            let probe = carried_payload(first.payload, Some(*key), probe.rows);
            let rates = memory_rates::memory_rates(&device.stream)?;
            let how = materialization(build, probe, matches, rates);
            Ok((by_default.0, how))
        }
        _ => Ok(by_default),
    }
}

/// Whether a sample of `build` shows duplicate keys, and one of `probe` none.
pub(crate) fn repeat_in_samples(
    device: &CudaDevice,
    build: &[&Column],
    probe: &[&Column],
    null_equal: bool,
) -> Result<bool> {
    if build.first().is_none_or(|keys| keys.rows() < LEAST_ROWS) || !are_values(build, null_equal) {
        return Ok(false);
    }
    let (build, keying) = key_words::equi_keys(device, build, null_equal)?;
    let probe = key_words::equi_keys_in(device, &keying, probe)?;
    let repeats = |of, other| {
        Ok::<_, BowtieError>(has_duplicates(sample::sampled(&device.stream, of, other)?))
    };
    Ok(repeats(&build, &probe)? && !repeats(&probe, &build)?)
}

/// Joins one probe batch: all matches with their columns. [`Paired::SharedKeys`] if build keys turn out to have
/// duplicates, [`Paired::TooMany`] if there are too many matches for one pass.
pub(crate) fn join_single_pass(
    device: &CudaDevice,
    build: &EquiBuild,
    build_payload: &[&Column],
    probe_keys: &[&Column],
    payload: &[&Column],
) -> Result<Paired> {
    let stream = &device.stream;
    let keys = key_words::equi_keys_in(device, &build.keying, probe_keys)?;
    let key = match (&build.keying, &build.table, probe_keys) {
        (_, Table::SortMerge(_), _) => None,
        (KeyEncoding::Values(_), _, [key]) => Some(*key),
        _ => None,
    };
    let origins = ColumnSources::of(stream, payload, key, build.materialization)?;
    let materialize_output = |output, rows| {
        let (build, probe) = ((&build.origins, build_payload), (&origins, payload));
        output::materialize_output(device, build, probe, output, rows).map(Paired::All)
    };
    if keys.rows == 0 {
        return materialize_output(None, 0);
    }
    if let Table::SortMerge(side) = &build.table {
        let Some(probe) =
            materialize::partition_side(stream, &keys, &origins, payload, Depth::Whole)?
        else {
            return materialize_output(None, 0);
        };
        // Buffers for one match per probe row may not fit device memory, even where those of the actual matches do.
        if !build.skip_presorted.load(Ordering::Relaxed) {
            let (of_build, of_probe) = ((&build.origins, build_payload), (&origins, payload));
            let pairs = presorted::unique_pairs(stream, (side, &probe), of_build, of_probe);
            let joined = pairs.and_then(|pairs| match pairs {
                Some((output, rows)) => materialize_output(Some(output), rows).map(Some),
                None => Ok(None),
            });
            match joined.if_it_fits()? {
                Some(Some(joined)) => return Ok(joined),
                Some(None) => build.skip_presorted.store(true, Ordering::Relaxed),
                // Out of device memory, which may be transient.
                None => {}
            }
        }
        return match materialize::merge_join(stream, side, &probe)? {
            Some((output, rows)) => materialize_output(Some(output), rows),
            None => Ok(Paired::TooMany),
        };
    }
    let output = materialize::allocate_matches(
        stream,
        &build.origins,
        build_payload,
        &origins,
        payload,
        (keys.rows, keys.width),
    )?;
    match &build.table {
        Table::Direct(table) => {
            let sources = (
                build.origins.in_row_order(build_payload),
                origins.in_row_order(payload),
            );
            let Addresses { least, count } = table.addresses;
            let count = U32::from(count as u32);
            match keys.width {
                Width::Four => {
                    let table = (&table.rows, U32::from(least as u32), count);
                    let kernel = kernels::EQUI_DIRECT_JOIN_U32;
                    materialize::join_by_index(stream, kernel, table, &keys, sources, &output)?;
                }
                Width::Eight => {
                    let table = (&table.rows, U64::from(least), count);
                    let kernel = kernels::EQUI_DIRECT_JOIN_U64;
                    materialize::join_by_index(stream, kernel, table, &keys, sources, &output)?;
                }
            }
        }
        Table::Hash(table) => {
            let kernel = match keys.width {
                Width::Four => kernels::EQUI_TABLE_JOIN_U32,
                Width::Eight => kernels::EQUI_TABLE_JOIN_U64,
            };
            let table = (&table.slots, U32::from(table.mask), U64::from(&table.keys));
            let sources = (
                build.origins.in_row_order(build_payload),
                origins.in_row_order(payload),
            );
            materialize::join_by_index(stream, kernel, table, &keys, sources, &output)?;
        }
        Table::Partitioned { side, starts, bits } => {
            let depth = Depth::Bits(*bits);
            if let Some(probe) =
                materialize::partition_side(stream, &keys, &origins, payload, depth)?
            {
                materialize::join_partitions(stream, side, starts, *bits, &probe, &output)?;
            }
        }
        Table::SortMerge(_) => {}
    }
    // The status word is set: not all matches were written.
    if stream.read_word32(&output.state, 2)? != 0 {
        return Ok(Paired::SharedKeys);
    }
    let rows = stream.read_word(&output.state, 0)? as usize;
    materialize_output(Some(output), rows)
}
