//! Materialization of an inner equi-join: the output columns of each match, written by the kernel that finds it. Here
//! is where a join writes the columns that it carries (`column_sources.rs`), and the launches
//! (`kernels/equi/partition/equi_part_join.cuh`, `kernels/equi/equi_index.cuh`; \[W\] 4.1).

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan;
use crate::device::cuda::equi::column_sources::{ColumnSources, Sources};
use crate::device::cuda::equi::index;
use crate::device::cuda::equi::key_words::{self, EquiKeys};
use crate::device::cuda::equi::partition::{
    self, CAPACITY, Depth, Descriptor, JOIN_THREADS, MOST_BITS, Partitioned, PayloadColumn, SLOTS,
};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{Argument, U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::range;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::ranges::OrderedRows;
use crate::error::{IfItFits as _, Result};

/// Bytes of an output column that a copy must free, at least, to be worth its time.
const LEAST_FREED: usize = 64 << 10;

/// The output buffers of a join.
pub(crate) struct Output {
    /// The key of each match, if it is wanted.
    pub(crate) keys: Option<Memory>,
    /// The columns of [`ColumnSources::carried`] of the build side, then row ids if [`ColumnSources::needs_rows`].
    pub(crate) build: Vec<Memory>,
    /// The same of the probe side.
    pub(crate) probe: Vec<Memory>,
    /// Matches that the buffers have room for.
    pub(crate) capacity: usize,
    /// The number of matches (64 bits), then a status word of 32 bits, which is not zero if not all matches were
    /// written.
    pub(crate) state: Memory,
}

impl Output {
    /// The kernels' arguments: keys, the most matches, their number, and the status.
    pub(crate) fn args(&self) -> Result<(U64, U64, U64, U64)> {
        Ok((
            self.keys.as_ref().into(),
            (self.capacity as u64).into(),
            (&self.state).into(),
            self.state.word(2)?.into(),
        ))
    }
}

/// A kernel that joins by a table: the table, build columns and their number, keys, their validity and their number,
/// probe columns and their number, and the output.
pub(crate) type TableJoin<T, M> = Kernel<(
    U64,
    T,
    M,
    U64,
    U32,
    U64,
    U64,
    U32,
    U64,
    U32,
    U64,
    U64,
    U64,
    U64,
)>;

/// Matches that sort-merge materialises in one pass, at most: in all, and per row of the larger side.
const MOST_PAIRS: usize = 1 << 30;
const MOST_PAIRS_A_ROW: usize = 8;

/// Descriptors of columns that are read as `sources` says and written to `out`.
pub(crate) fn descriptors(sources: &Sources<'_>, out: &[Memory]) -> Vec<Descriptor> {
    let written = sources.iter().zip(out);
    written
        .map(|((values, bytes), out)| {
            let values = values.map_or(0, Part::pointer);
            [values, out.pointer(), *bytes as u64]
        })
        .collect()
}

/// Partitions the rows of a side that can match: mixed keys, carried columns and, if needed, row ids. `None` if no
/// row can match.
pub(crate) fn partition_side(
    stream: &Arc<Stream>,
    keys: &EquiKeys<'_>,
    origins: &ColumnSources,
    payload: &[&Column],
    depth: Depth,
) -> Result<Option<Partitioned>> {
    let kept = key_words::kept_keys(stream, keys)?;
    let carried = origins.carried(payload);
    let mut gathered = vec![];
    if let Some((rows, _)) = &kept {
        for (values, bytes) in &carried {
            gathered.push(rows::gather_values(
                stream,
                *values,
                memory(rows)?,
                rows.len(),
                *bytes,
            )?);
        }
    }
    let mut columns: Vec<PayloadColumn<'_>> = carried
        .iter()
        .enumerate()
        .map(|(at, (values, bytes))| PayloadColumn {
            values: Some(
                gathered
                    .get(at)
                    .map_or_else(|| Part::from(*values), Part::from),
            ),
            bytes: *bytes,
        })
        .collect();
    if origins.needs_rows() {
        columns.push(match &kept {
            None => PayloadColumn::ROWS,
            Some((rows, _)) => PayloadColumn {
                values: Some(memory(rows)?.into()),
                bytes: 4,
            },
        });
    }
    let (words, n) = match &kept {
        None => (keys.words()?, keys.rows),
        Some((rows, words)) => (words.into(), rows.len()),
    };
    if n == 0 {
        return Ok(None);
    }
    partition::partition(stream, words, keys.width, n, &columns, depth).map(Some)
}

/// Allocates the output of a join with unique build keys: one match for each of `capacity` probe rows, with keys of
/// `width`.
pub(crate) fn allocate_matches(
    stream: &Arc<Stream>,
    build: &ColumnSources,
    build_payload: &[&Column],
    origins: &ColumnSources,
    payload: &[&Column],
    (capacity, width): (usize, Width),
) -> Result<Output> {
    let columns = |origins: &ColumnSources, payload: &[&Column]| -> Result<Vec<Memory>> {
        origins
            .in_row_order(payload)
            .iter()
            .map(|(_, bytes)| stream.alloc(capacity * bytes, "output columns"))
            .collect()
    };
    Ok(Output {
        keys: match origins.writes_key() {
            true => Some(stream.alloc(capacity * width.bytes(), "output columns")?),
            false => None,
        },
        build: columns(build, build_payload)?,
        probe: columns(origins, payload)?,
        capacity,
        state: stream.zeroed(16, "join output rows")?,
    })
}

/// Joins by a direct or a hash table: launches `kernel`, whose first arguments are `table`, over the probe `keys`.
/// The output's state says how many matches there are, and whether all were written.
pub(crate) fn join_by_index<T: Argument, M: Argument>(
    stream: &Arc<Stream>,
    kernel: TableJoin<T, M>,
    (table, second, third): (&Memory, T, M),
    keys: &EquiKeys<'_>,
    (build, probe): (Sources<'_>, Sources<'_>),
    output: &Output,
) -> Result<()> {
    let build_columns = partition::upload_descriptors(stream, &descriptors(&build, &output.build))?;
    let probe_columns = partition::upload_descriptors(stream, &descriptors(&probe, &output.probe))?;
    let (written, capacity, matches, status) = output.args()?;
    let args = (
        table.into(),
        second,
        third,
        (&build_columns).into(),
        (build.len() as u32).into(),
        keys.words()?.into(),
        keys.valid().into(),
        (keys.rows as u32).into(),
        (&probe_columns).into(),
        (probe.len() as u32).into(),
        written,
        capacity,
        matches,
        status,
    );
    // SAFETY: the table is one of keys of this width and of the build columns' rows; keys, validity and probe
    // columns are of the same number of rows; the written columns have room for `output.capacity` matches; the words of
    // the state that are written were zero.
    unsafe { stream.launch(kernel, Shape::rows(keys.rows), &args) }
}

/// Joins two sides that are partitioned by the same `bits`, a block at a time for each piece of the probe side,
/// against tables in shared memory. The output's state says how many matches there are, and whether all were
/// written.
pub(crate) fn join_partitions(
    stream: &Arc<Stream>,
    build: &Partitioned,
    build_starts: &Memory,
    bits: u32,
    probe: &Partitioned,
    output: &Output,
) -> Result<()> {
    let (pieces, count, mut shape) = partition::pieces(stream, probe, build_starts, bits, false)?;
    debug_assert_eq!(shape.threads, JOIN_THREADS);
    let of_side = |columns: &[Memory], out: &[Memory]| {
        let written = columns.iter().zip(out);
        written
            .map(|(values, out)| {
                let bytes = out.bytes() / output.capacity;
                [values.pointer(), out.pointer(), bytes as u64]
            })
            .collect::<Vec<Descriptor>>()
    };
    let build_columns =
        partition::upload_descriptors(stream, &of_side(&build.columns, &output.build))?;
    let probe_columns =
        partition::upload_descriptors(stream, &of_side(&probe.columns, &output.probe))?;
    // With the most partitions of 4-byte keys, a table has one bit for each key that a partition can have. It takes
    // the same time for any number of rows, which is worth it for full partitions.
    let by_bits = build.width == Width::Four && bits == MOST_BITS;
    let (kernel, cells, fixed) = match (build.width, by_bits) {
        (_, true) => {
            let cells = 1usize << (28 - bits);
            (kernels::EQUI_PART_JOIN_BITS_U32, cells, 4 * cells)
        }
        (Width::Four, false) => (kernels::EQUI_PART_JOIN_U32, SLOTS, 4 * (SLOTS + CAPACITY)),
        (Width::Eight, false) => (kernels::EQUI_PART_JOIN_U64, SLOTS, 4 * SLOTS + 8 * CAPACITY),
    };
    // Build columns are staged as far as shared memory lets two blocks run per multiprocessor anyway; one is staged
    // in any case.
    let staged = (48 * 1024 - 64usize)
        .saturating_sub(fixed)
        .div_euclid(4 * CAPACITY)
        .min(build.columns.len())
        .max(1);
    shape.shared = (fixed + 4 * staged * CAPACITY) as u32;
    let (keys, capacity, matches, status) = output.args()?;
    let args = (
        (&build.keys).into(),
        (&build_columns).into(),
        (build.columns.len() as u32).into(),
        (&probe.keys).into(),
        (&probe_columns).into(),
        (probe.columns.len() as u32).into(),
        (&pieces).into(),
        (&count).into(),
        (CAPACITY as u32).into(),
        (cells as u32).into(),
        (staged as u32).into(),
        keys,
        capacity,
        matches,
        status,
    );
    // SAFETY: pieces name rows of both sides, whose mixed keys are partitioned by the same bits; columns have as
    // many rows as their side's keys, and the written columns have room for `output.capacity` matches; the shared
    // memory has room for the table and the staged columns; the words of the state that are written were zero.
    unsafe { stream.launch(kernel, shape, &args) }
}

/// All matches of two sides that are sorted by mixed keys, duplicate keys included: ranges, expanded, with columns
/// gathered by neighbouring positions. `None` if there are too many matches for one pass.
pub(crate) fn merge_join(
    stream: &Arc<Stream>,
    build: &Partitioned,
    probe: &Partitioned,
) -> Result<Option<(Output, usize)>> {
    let ranges = index::merge_ranges(stream, build, probe)?;
    let counts = range::range_counts(stream, &ranges, false)?;
    let offsets = scan::scan_offsets(stream, &counts)?;
    let rows = stream.read_word(memory(&offsets)?, offsets.len() - 1)?;
    // High-fan-out output is better emitted in several batches.
    let most = MOST_PAIRS.min(MOST_PAIRS_A_ROW * build.rows.max(probe.rows));
    let Some(rows) = usize::try_from(rows).ok().filter(|rows| *rows <= most) else {
        return Ok(None);
    };
    if rows == 0 {
        // The kernels that expand ranges need at least one match.
        let nothing = |side: &Partitioned| -> Result<Vec<Memory>> {
            let columns = side.columns.iter();
            columns.map(|_| stream.alloc(0, "output columns")).collect()
        };
        let output = Output {
            keys: None,
            build: nothing(build)?,
            probe: nothing(probe)?,
            capacity: 0,
            state: stream.alloc(0, "join output rows")?,
        };
        return Ok(Some((output, 0)));
    }
    let positions = |n| -> Result<OrderedRows> {
        Ok(OrderedRows {
            rows: rows::sequence(stream, 0, n)?,
            keys: None,
            segments: None,
        })
    };
    let (build_rows, probe_rows) = (positions(build.rows)?, positions(probe.rows)?);
    let pairs = range::expand_ranges(stream, &build_rows, &probe_rows, &ranges, &offsets, 0, rows)?;
    let gathered = |side: &Partitioned, by: &Buffer<u32>| -> Result<Vec<Memory>> {
        side.columns
            .iter()
            .map(|column| {
                let bytes = column.bytes() / side.rows;
                rows::gather_values(stream, column, memory(by)?, rows, bytes)
            })
            .collect()
    };
    let output = Output {
        keys: None,
        build: gathered(build, &pairs.build)?,
        probe: gathered(probe, &pairs.probe)?,
        capacity: rows,
        state: stream.alloc(0, "join output rows")?,
    };
    Ok(Some((output, rows)))
}

/// The first `bytes` of `memory`, copied to a buffer of their own if that frees more than [`LEAST_FREED`] and more
/// than half of it, and if there is memory for both.
pub(crate) fn shrunk(stream: &Arc<Stream>, memory: Memory, bytes: usize) -> Result<Memory> {
    if bytes >= memory.bytes() / 2 || memory.bytes() - bytes <= LEAST_FREED {
        return Ok(memory);
    }
    let copied = stream.copy_of((&memory).into(), bytes, "output columns");
    Ok(copied.if_it_fits()?.unwrap_or(memory))
}
