//! Pairs with all their columns, written by the kernels that find them: which columns a join carries, where it writes, and its launches
//! (`kernels/equi/partition/equi_part_join.cuh`, `kernels/equi/equi_index.cuh`; \[W\] section 3.3).

use std::sync::Arc;

use crate::device::cuda::columns::layout::width;
use crate::device::cuda::equi::choose::Payload;
use crate::device::cuda::equi::key_words::EquiKeys;
use crate::device::cuda::equi::partition::{
    CAPACITY, Carried, Depth, Descriptor, JOIN_THREADS, MOST_BITS, Partitioned, SLOTS,
};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::launch::{Arg, Shape};
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::device::data::column::Column;
use crate::device::data::ranges::OrderedRows;
use crate::error::Result;
use crate::ir::strategies::Materialization;

/// Bytes that are worth a copy of those that are left.
const LEAST_FREED: usize = 64 << 10;

/// How a payload column comes to a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is the key, which the join writes.
    Key,
    /// The join carries it: number so many of those that it carries.
    Carried(usize),
    ByRow,
}

/// The ways of one side's columns.
#[derive(Debug)]
pub(crate) struct Ways {
    pub(crate) ways: Vec<Way>,
}

impl Ways {
    pub(crate) fn of(
        payload: &[&Column],
        key: Option<&Column>,
        materialization: Materialization,
    ) -> Self {
        let mut carried = 0;
        let mut key_taken = false;
        let ways = payload
            .iter()
            .map(|column| {
                let is_key = key.is_some_and(|key| std::ptr::eq(key, *column)) && !key_taken;
                if is_key {
                    key_taken = true;
                    return Way::Key;
                }
                match materialization == Materialization::Gftr && carried_bytes(column).is_some() {
                    true => {
                        carried += 1;
                        Way::Carried(carried - 1)
                    }
                    false => Way::ByRow,
                }
            })
            .collect();
        Self { ways }
    }

    pub(crate) fn needs_rows(&self) -> bool {
        self.ways.contains(&Way::ByRow)
    }

    pub(crate) fn writes_key(&self) -> bool {
        self.ways.contains(&Way::Key)
    }

    /// What goes along with so many rows.
    pub(crate) fn payload(&self, payload: &[&Column], rows: usize) -> Payload {
        let carried = self.carried(payload);
        Payload {
            rows,
            bytes: carried.iter().map(|(_, bytes)| bytes).sum(),
            columns: carried.len(),
            with_rows: self.needs_rows(),
        }
    }

    /// The columns that the join carries.
    fn carried<'a>(&self, payload: &[&'a Column]) -> Vec<(&'a Memory, usize)> {
        let ways = self.ways.iter().zip(payload);
        ways.filter(|(way, _)| matches!(way, Way::Carried(_)))
            .filter_map(|(_, column)| Some((&column.on_cuda()?.values, carried_bytes(column)?)))
            .collect()
    }
}

/// Bytes of a column's values, where a join can carry it.
fn carried_bytes(column: &Column) -> Option<usize> {
    let values = column.on_cuda()?;
    let bytes = width(&values.data_type)?;
    (values.valid.is_none() && matches!(bytes, 4 | 8 | 16)).then_some(bytes)
}

/// What a join writes, and where.
pub(crate) struct Output {
    pub(crate) keys: Option<Memory>,
    pub(crate) build: Vec<Memory>,
    pub(crate) probe: Vec<Memory>,
    /// Results that there is room for.
    pub(crate) room: usize,
    /// How many there were, and what was found out.
    pub(crate) state: Memory,
}

/// The columns of a side that kernels read: the carried ones, then row numbers where they are needed.
pub(crate) type Sources<'a> = Vec<(Option<Part<'a>>, usize)>;

/// Pairs that sort-merge makes at once, at most, and for each row of the longer side.
const MOST_PAIRS: usize = 1 << 30;
const MOST_PAIRS_A_ROW: usize = 4;

/// What an index's kernel reads of a side's columns.
pub(crate) fn sources<'a>(ways: &Ways, payload: &[&'a Column]) -> Sources<'a> {
    let carried = ways.carried(payload).into_iter();
    let mut sources: Sources<'a> = carried
        .map(|(values, bytes)| (Some(values.into()), bytes))
        .collect();
    if ways.needs_rows() {
        sources.push((None, 4));
    }
    sources
}

pub(crate) fn descriptors(sources: &Sources<'_>, out: &[Memory]) -> Vec<Descriptor> {
    let written = sources.iter().zip(out);
    written
        .map(|((values, bytes), out)| {
            let values = values.map_or(0, |values| Arg::from(values).word());
            [values, out.pointer(), *bytes as u64]
        })
        .collect()
}

impl Stream {
    /// The keys that may match, partitioned, with the columns that are carried and, where they are needed, row numbers; `None`: there
    /// are none.
    pub(crate) fn partition_side(
        self: &Arc<Self>,
        keys: &EquiKeys<'_>,
        ways: &Ways,
        payload: &[&Column],
        depth: Depth,
    ) -> Result<Option<Partitioned>> {
        let kept = self.kept_keys(keys)?;
        let carried = ways.carried(payload);
        let mut gathered = vec![];
        if let Some((rows, _)) = &kept {
            for (values, bytes) in &carried {
                gathered.push(self.gather_values(*values, memory(rows)?, rows.len(), *bytes)?);
            }
        }
        let mut columns: Vec<Carried<'_>> = carried
            .iter()
            .enumerate()
            .map(|(at, (values, bytes))| Carried {
                values: Some(
                    gathered
                        .get(at)
                        .map_or_else(|| Part::from(*values), Part::from),
                ),
                bytes: *bytes,
            })
            .collect();
        if ways.needs_rows() {
            columns.push(match &kept {
                None => Carried::ROWS,
                Some((rows, _)) => Carried {
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
        self.partition(words, keys.width, n, &columns, depth)
            .map(Some)
    }

    /// Room for a pair for each of so many probe rows, with keys of a width: build keys are unique.
    pub(crate) fn room_for_pairs(
        self: &Arc<Self>,
        build: &Ways,
        build_payload: &[&Column],
        ways: &Ways,
        payload: &[&Column],
        (room, width): (usize, Width),
    ) -> Result<Output> {
        let columns = |ways: &Ways, payload: &[&Column]| -> Result<Vec<Memory>> {
            sources(ways, payload)
                .iter()
                .map(|(_, bytes)| self.alloc(room * bytes, "output columns"))
                .collect()
        };
        Ok(Output {
            keys: match ways.writes_key() {
                true => Some(self.alloc(room * width.bytes(), "output columns")?),
                false => None,
            },
            build: columns(build, build_payload)?,
            probe: columns(ways, payload)?,
            room,
            state: self.zeroed(16, "output pairs")?,
        })
    }

    pub(crate) fn join_by_index(
        self: &Arc<Self>,
        kernel: &'static str,
        table: &[Arg],
        keys: &EquiKeys<'_>,
        (build, probe): (Sources<'_>, Sources<'_>),
        output: &Output,
    ) -> Result<()> {
        let build_columns = self.descriptors(&descriptors(&build, &output.build))?;
        let probe_columns = self.descriptors(&descriptors(&probe, &output.probe))?;
        let mut args = table.to_vec();
        args.extend([
            (&build_columns).into(),
            (build.len() as u32).into(),
            keys.words()?.into(),
            keys.valid().into(),
            (keys.rows as u32).into(),
            (&probe_columns).into(),
            (probe.len() as u32).into(),
            output.keys.as_ref().into(),
            (output.room as u64).into(),
            (&output.state).into(),
            output.state.word(2),
        ]);
        // SAFETY: the table is one of keys of this width and of the build columns' rows; keys, validity and probe columns are of as
        // many rows; the columns written have room for so many results; what is written to the state was zero.
        unsafe { self.launch(kernel, Shape::rows(keys.rows), &args) }
    }

    pub(crate) fn join_partitions(
        self: &Arc<Self>,
        build: &Partitioned,
        build_starts: &Memory,
        bits: u32,
        probe: &Partitioned,
        output: &Output,
    ) -> Result<()> {
        let (pieces, count, mut shape) = self.pieces(probe, build_starts, bits, false)?;
        debug_assert_eq!(shape.threads, JOIN_THREADS);
        let of_side = |columns: &[Memory], out: &[Memory]| {
            let written = columns.iter().zip(out);
            written
                .map(|(values, out)| {
                    let bytes = out.bytes() / output.room;
                    [values.pointer(), out.pointer(), bytes as u64]
                })
                .collect::<Vec<Descriptor>>()
        };
        let build_columns = self.descriptors(&of_side(&build.columns, &output.build))?;
        let probe_columns = self.descriptors(&of_side(&probe.columns, &output.probe))?;
        // Tables of a bit for each key that there could be: these take as long whatever the rows, and pay for full partitions.
        let by_bits = build.width == Width::Four && bits == MOST_BITS;
        let (kernel, cells, fixed) = match (build.width, by_bits) {
            (_, true) => {
                let cells = 1usize << (28 - bits);
                ("equi_part_join_bits_u32", cells, 4 * cells)
            }
            (Width::Four, false) => ("equi_part_join_u32", SLOTS, 4 * (SLOTS + CAPACITY)),
            (Width::Eight, false) => ("equi_part_join_u64", SLOTS, 4 * SLOTS + 8 * CAPACITY),
        };
        // As many build columns at a time as keep to what two blocks of a multiprocessor have anyway; one in any case.
        let staged = (48 * 1024 - 64usize)
            .saturating_sub(fixed)
            .div_euclid(4 * CAPACITY)
            .min(build.columns.len())
            .max(1);
        shape.shared = (fixed + 4 * staged * CAPACITY) as u32;
        let args = [
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
            output.keys.as_ref().into(),
            (output.room as u64).into(),
            (&output.state).into(),
            output.state.word(2),
        ];
        // SAFETY: pieces name rows of both sides, whose mixed keys are in partitions of the same bits; columns are of as many rows as
        // their side's keys, and what is written has room for as many results; the shared memory has room for the table and the
        // staged columns; what is written to the state was zero.
        unsafe { self.launch(kernel, shape, &args) }
    }

    /// All pairs of two sides in order, their columns gathered by neighbouring positions; `None` where they are too many to be
    /// made at once.
    pub(crate) fn merge_join(
        self: &Arc<Self>,
        build: &Partitioned,
        probe: &Partitioned,
    ) -> Result<Option<(Output, usize)>> {
        let ranges = self.merge_ranges(build, probe)?;
        let counts = self.range_counts(&ranges, false)?;
        let offsets = self.scan_offsets(&counts)?;
        let rows = self.read_word(memory(&offsets)?, offsets.len() - 1)?;
        // Many times as many as came in had better leave piece by piece.
        let most = MOST_PAIRS.min(MOST_PAIRS_A_ROW * build.rows.max(probe.rows));
        let Some(rows) = usize::try_from(rows).ok().filter(|rows| *rows <= most) else {
            return Ok(None);
        };
        if rows == 0 {
            // Kernels that expand are given a pair at least.
            let nothing = |side: &Partitioned| -> Result<Vec<Memory>> {
                let columns = side.columns.iter();
                columns.map(|_| self.alloc(0, "output columns")).collect()
            };
            let output = Output {
                keys: None,
                build: nothing(build)?,
                probe: nothing(probe)?,
                room: 0,
                state: self.alloc(0, "output pairs")?,
            };
            return Ok(Some((output, 0)));
        }
        let positions = |n| -> Result<OrderedRows> {
            Ok(OrderedRows {
                rows: self.sequence(0, n)?,
                keys: None,
                segments: None,
            })
        };
        let (build_rows, probe_rows) = (positions(build.rows)?, positions(probe.rows)?);
        let pairs = self.expand_ranges(&build_rows, &probe_rows, &ranges, &offsets, 0, rows)?;
        let gathered = |side: &Partitioned, by: &Buffer<u32>| -> Result<Vec<Memory>> {
            side.columns
                .iter()
                .map(|column| {
                    let bytes = column.bytes() / side.rows;
                    self.gather_values(column, memory(by)?, rows, bytes)
                })
                .collect()
        };
        let output = Output {
            keys: None,
            build: gathered(build, &pairs.build)?,
            probe: gathered(probe, &pairs.probe)?,
            room: rows,
            state: self.alloc(0, "output pairs")?,
        };
        Ok(Some((output, rows)))
    }

    /// The first `bytes` of a memory, in one of their own where that frees much, and more than half of it, and where there is room for
    /// both.
    pub(crate) fn shrunk(self: &Arc<Self>, memory: Memory, bytes: usize) -> Result<Memory> {
        if bytes >= memory.bytes() / 2 || memory.bytes() - bytes <= LEAST_FREED {
            return Ok(memory);
        }
        match self.copy_of((&memory).into(), bytes, "output columns") {
            Err(error) if error.is_out_of_device_memory() => Ok(memory),
            copied => copied,
        }
    }
}
