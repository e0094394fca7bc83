//! Equi-joins in two steps: build an index of the build rows by key, then find the range of index positions of each
//! probe row. The ranges are expanded to matches later (`kernels/equi/equi.cu`; \[W\] 3.1, which has no direct
//! address).
//!
//! ```text
//! direct, hash:   key ─► address, or slot of a table ─► its build rows: one, or a segment after a counting sort (CSR);
//!                 keys that were made to collide in a hash table are sorted instead
//! partitioned:    both sides by the highest bits of the mixed key, a table of distinct keys per partition
//! sort-merge:     both sides by all bits of the mixed key, ranges along the merge path
//! ```

use std::sync::Arc;

use crate::device::cuda::columns::layout::bitmap_bytes;
use crate::device::cuda::columns::rows;
use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::equi::choose::{Build, choose};
use crate::device::cuda::equi::key_words::{self, Addresses, EquiKeys, KeyEncoding};
use crate::device::cuda::equi::partition::{
    self, CAPACITY, Depth, Partitioned, PayloadColumn, SLOTS, partition_bits,
};
use crate::device::cuda::equi::tables::{self, DirectTable, Grouped, HashTable, by_rows};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::{Buffer, check_chunk_rows};
use crate::device::data::column::Column;
use crate::device::data::opaque::Opaque;
use crate::device::data::ranges::{OrderedRows, Ranges};
use crate::device::data::structures::EquiIndex;
use crate::error::Result;
use crate::ir::strategies::EquiStrategy;

/// The index of a build side: the encoding of its keys, and the structure in which a probe key is found.
#[derive(Debug)]
pub(crate) struct EquiTable {
    keying: KeyEncoding,
    /// `None` if no build row can match.
    finder: Option<Finder>,
}

#[derive(Debug)]
enum Finder {
    Direct(Grouped<DirectTable>),
    Hash(Grouped<HashTable>),
    Partitioned {
        /// Distinct mixed keys in ascending order; `segments` has the first build position of each, and the end.
        keys: Memory,
        width: Width,
        segments: Memory,
        /// First distinct key of each of the `2^bits` partitions, and the end.
        starts: Memory,
        bits: u32,
    },
    SortMerge(Partitioned),
}

/// A direct table may take one `MEMORY_SHARE`th of the memory budget.
const MEMORY_SHARE: u64 = 8;

/// Indexes the build rows by the key columns `base`. Without `wanted` the strategy is chosen. An error if the chunk
/// has too many rows for row ids of 32 bits.
pub(crate) fn index_keys(
    device: &CudaDevice,
    base: &[&Column],
    null_equal: bool,
    wanted: Option<EquiStrategy>,
) -> Result<EquiIndex> {
    let rows = base.first().map_or(0, |column| column.rows());
    check_chunk_rows(rows)?;
    let (keys, keying, addresses, strategy) = keys_for(device, base, null_equal, wanted)?;
    let stream = &device.stream;
    let indexed = match strategy {
        _ if rows == 0 => None,
        EquiStrategy::Direct => {
            let (table, unique) = tables::direct_table(stream, &keys, addresses)?;
            let (rows, grouped) = tables::group_rows(stream, table, unique, &keys)?;
            Some((rows, Finder::Direct(grouped)))
        }
        EquiStrategy::Hash => match tables::hash_table(stream, &keys)? {
            Some((table, unique)) => {
                let (rows, grouped) = tables::group_rows(stream, table, unique, &keys)?;
                Some((rows, Finder::Hash(grouped)))
            }
            None => sorted_index(stream, &keys)?,
        },
        EquiStrategy::PartitionedHash => partitioned_index(stream, &keys)?,
        EquiStrategy::SortMerge => sorted_index(stream, &keys)?,
    };
    let (rows, finder) = match indexed {
        Some((rows, finder)) => (rows, Some(finder)),
        None => (rows::no_rows(stream)?, None),
    };
    let strategy = match finder {
        Some(Finder::SortMerge(_)) => EquiStrategy::SortMerge,
        _ => strategy,
    };
    Ok(EquiIndex {
        rows: by_rows(rows),
        strategy,
        table: Opaque::new(EquiTable { keying, finder }),
    })
}

/// The build side's key words, their encoding, their addresses (of direct address only; otherwise none) and the
/// strategy. Direct address with too wide a range changes the keys to group ids.
pub(crate) fn keys_for<'a>(
    device: &CudaDevice,
    base: &[&'a Column],
    null_equal: bool,
    wanted: Option<EquiStrategy>,
) -> Result<(EquiKeys<'a>, KeyEncoding, Addresses, EquiStrategy)> {
    let (mut keys, mut keying) = key_words::equi_keys(device, base, null_equal)?;
    let build = Build {
        rows: keys.rows,
        width: keys.width,
        numbered: matches!(keying, KeyEncoding::Groups(_)),
        cache_bytes: device.stream.gpu.cache_bytes,
        table_bytes: device.stream.budget.limit() / MEMORY_SHARE,
    };
    let addresses = match build.may_be_direct(wanted) {
        true => key_words::addresses(device, base, &keying)?,
        false => None,
    };
    let strategy = choose(&build, addresses, wanted);
    let addresses = match (strategy, addresses) {
        (EquiStrategy::Direct, Some(addresses)) if build.allows(addresses) => addresses,
        (EquiStrategy::Direct, _) => {
            (keys, keying) = key_words::equi_groups(device, base, null_equal)?;
            let groups = key_words::addresses(device, base, &keying)?;
            groups.unwrap_or(Addresses { least: 0, count: 0 })
        }
        _ => Addresses { least: 0, count: 0 },
    };
    Ok((keys, keying, addresses, strategy))
}

/// The probe rows in an order that suits the strategy, and the range of index positions of each. Probe rows that
/// cannot match may be missing.
pub(crate) fn search_keys(
    device: &CudaDevice,
    index: &EquiIndex,
    columns: &[&Column],
) -> Result<(OrderedRows, Ranges)> {
    let table: &EquiTable = index.table.get()?;
    let stream = &device.stream;
    let keys = key_words::equi_keys_in(device, &table.keying, columns)?;
    let none = || Ok((by_rows(rows::no_rows(stream)?), no_ranges(stream)?));
    let Some(finder) = table.finder.as_ref().filter(|_| keys.rows > 0) else {
        return none();
    };
    match finder {
        Finder::Direct(grouped) => tables::look_up(stream, grouped, &keys),
        Finder::Hash(grouped) => tables::look_up(stream, grouped, &keys),
        Finder::Partitioned {
            keys: distinct,
            width,
            segments,
            starts,
            bits,
        } => {
            let Some((rows, probe)) = in_partitions(stream, &keys, Depth::Bits(*bits))? else {
                return none();
            };
            let (pieces, count, mut shape) =
                partition::pieces(stream, &probe, starts, *bits, true)?;
            let groups = stream.alloc(probe.rows * 4, "groups")?;
            let status = stream.zeroed(4, "groups")?;
            shape.shared = (4 * SLOTS + width.bytes() * CAPACITY) as u32;
            let kernel = match width {
                Width::Four => kernels::EQUI_PART_FIND_U32,
                Width::Eight => kernels::EQUI_PART_FIND_U64,
            };
            let args = (
                distinct.into(),
                (&probe.keys).into(),
                (&pieces).into(),
                (&count).into(),
                (CAPACITY as u32).into(),
                (SLOTS as u32).into(),
                (&groups).into(),
                (&status).into(),
            );
            // SAFETY: pieces name rows of both sides' keys, which are mixed and partitioned by the same bits;
            // `groups` holds a word for each probe row; the shared memory has room for the table.
            unsafe { stream.launch(kernel, shape, &args)? };
            let ranges = tables::ranges_of_groups(stream, &groups, probe.rows, segments)?;
            Ok((by_rows(rows), ranges))
        }
        Finder::SortMerge(build) => {
            let Some((rows, probe)) = in_partitions(stream, &keys, Depth::Whole)? else {
                return none();
            };
            let ranges = merge_ranges(stream, build, &probe)?;
            Ok((by_rows(rows), ranges))
        }
    }
}

/// The ranges of no probe rows.
pub(crate) fn no_ranges(stream: &Arc<Stream>) -> Result<Ranges> {
    Ok(Ranges {
        lo: rows::no_rows(stream)?,
        hi: rows::no_rows(stream)?,
    })
}

/// The row ids and mixed keys of the rows that can match, partitioned or sorted as `depth` says. `None` if no row
/// can match.
fn in_partitions(
    stream: &Arc<Stream>,
    keys: &EquiKeys<'_>,
    depth: Depth,
) -> Result<Option<(Buffer<u32>, Partitioned)>> {
    let kept = key_words::kept_keys(stream, keys)?;
    let (words, n, carried): (Part<'_>, usize, PayloadColumn<'_>) = match &kept {
        None => (keys.words()?, keys.rows, PayloadColumn::ROWS),
        Some((rows, words)) => {
            let of_rows = PayloadColumn {
                values: Some(memory(rows)?.into()),
                bytes: 4,
            };
            (words.into(), rows.len(), of_rows)
        }
    };
    if n == 0 {
        return Ok(None);
    }
    let mut parts = partition::partition(stream, words, keys.width, n, &[carried], depth)?;
    Ok(parts
        .columns
        .pop()
        .map(|rows| (Buffer::cuda(rows, n), parts)))
}

/// The build rows sorted by key; `None` if no row can match.
fn sorted_index(
    stream: &Arc<Stream>,
    keys: &EquiKeys<'_>,
) -> Result<Option<(Buffer<u32>, Finder)>> {
    let sorted = in_partitions(stream, keys, Depth::Whole)?;
    Ok(sorted.map(|(rows, sorted)| (rows, Finder::SortMerge(sorted))))
}

/// The build rows sorted by key, and the distinct keys with their segments and partitions; `None` if no row can
/// match.
fn partitioned_index(
    stream: &Arc<Stream>,
    keys: &EquiKeys<'_>,
) -> Result<Option<(Buffer<u32>, Finder)>> {
    let Some((rows, sorted)) = in_partitions(stream, keys, Depth::Whole)? else {
        return Ok(None);
    };
    let (n, width) = (sorted.rows, sorted.width);
    let heads = stream.alloc(bitmap_bytes(n), "equi-join groups")?;
    let kernel = match width {
        Width::Four => kernels::EQUI_HEADS_U32,
        Width::Eight => kernels::EQUI_HEADS_U64,
    };
    let args = ((&sorted.keys).into(), (&heads).into(), (n as u32).into());
    // SAFETY: `sorted` holds n keys, `heads` n bits.
    unsafe { stream.launch(kernel, Shape::rows(n), &args)? };
    let (offsets, distinct) = rows::select_offsets(stream, &heads, n)?;
    let firsts = rows::select_at(stream, &heads, n, &offsets, distinct, None)?;
    let of_distinct = rows::gather_values(
        stream,
        &sorted.keys,
        memory(&firsts)?,
        distinct,
        width.bytes(),
    )?;
    // The segment of the last key ends where the rows end.
    let ended = stream.alloc((distinct + 1) * 4, "equi-join groups")?;
    memory(&firsts)?.copy_to(distinct * 4, &ended, 0)?;
    let args = ((n as u32).into(), ended.word(distinct)?.into(), 1u32.into());
    // SAFETY: `ended` has room for the one word.
    unsafe { stream.launch(kernels::ROWS_SEQUENCE, Shape::rows(1), &args)? };
    let bits = partition_bits(distinct);
    let starts = partition::partition_starts(stream, &of_distinct, width, distinct, bits)?;
    let finder = Finder::Partitioned {
        keys: of_distinct,
        width,
        segments: ended,
        starts,
        bits,
    };
    Ok(Some((rows, finder)))
}

/// The range of build positions with the key of each probe position; both sides are sorted by mixed keys.
pub(crate) fn merge_ranges(
    stream: &Arc<Stream>,
    build: &Partitioned,
    probe: &Partitioned,
) -> Result<Ranges> {
    let (n, m) = (build.rows, probe.rows);
    let kernels = match build.width {
        Width::Four => [kernels::EQUI_MERGE_LOWER_U32, kernels::EQUI_MERGE_UPPER_U32],
        Width::Eight => [kernels::EQUI_MERGE_LOWER_U64, kernels::EQUI_MERGE_UPPER_U64],
    };
    let bound = |kernel| -> Result<Buffer<u32>> {
        let out = stream.alloc(m * 4, "range bounds")?;
        let args = (
            (&build.keys).into(),
            (n as u32).into(),
            (&probe.keys).into(),
            (m as u32).into(),
            (&out).into(),
        );
        // SAFETY: both sides' keys are sorted, n and m of them, together fewer than 2^32; `out` holds m words.
        unsafe { stream.launch(kernel, Shape::blocks_of(n + m, 4096, 256), &args)? };
        Ok(Buffer::cuda(out, m))
    };
    Ok(Ranges {
        lo: bound(kernels[0])?,
        hi: bound(kernels[1])?,
    })
}
