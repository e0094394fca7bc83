//! [`Order`]: rows in partition order or in sorted order, and the columns that move with them. In: keys or group ids. Out: these in the new
//! order, and on request each column of an accumulator. Kernels: `kernels/aggregate/group_spread.cu` where rows of a partition may be in any
//! order, `group_part.cu` otherwise, `kernels/keys/sort.cu` for sorting. Columns of 4 and 8 bytes move together with their keys and need no
//! gather afterwards (GFTR: \[W\] 4.1.2 and 4.1.3), in sorts where `materialization.rs` finds that better; otherwise rows are gathered (GFUR).

use std::sync::Arc;

use crate::device::cuda::aggregate::accumulate::accumulator::{
    Accumulator, MOST_ACCUMULATORS, columns_of, reads,
};
use crate::device::cuda::aggregate::choose::FEW_PARTITIONED;
use crate::device::cuda::aggregate::directory::{Ids, seed};
use crate::device::cuda::aggregate::materialization::{Sorted, SortedColumns};
use crate::device::cuda::aggregate::partitioner::{
    FIRST_HASH_BIT, PARTITION_BITS, Partitioner, group_partition_starts, to_partitions,
};
use crate::device::cuda::columns::rows;
use crate::device::cuda::equi::partition::{self, Depth, PayloadColumn};
use crate::device::cuda::keys::key_width::Width;
use crate::device::cuda::keys::sort::{self, NARROW, NARROW_WITH_WORDS, check_sortable, passes};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::U32;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::{Memory, Part};
use crate::device::cuda::runtime::stream::Stream;
use crate::device::data::buffer::Buffer;
use crate::error::{BowtieError, Result};
use crate::ir::strategies::Materialization;

/// A permutation of rows, by partition or sorted.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    /// The row id at each position. `None` where no column needs it.
    rows: Option<Buffer<u32>>,
    /// Columns in this order, each with the pointer of its original.
    moved_columns: Vec<(u64, Memory)>,
    movement: Movement<'a>,
    n: usize,
}

/// Adds the columns of accumulators to their results: accumulators, then one result for each.
pub(crate) type FoldColumns<'f> = dyn FnMut(&[Accumulator<'_>], &[Memory]) -> Result<()> + 'f;

/// How a column gets into this order.
#[derive(Debug)]
enum Movement<'a> {
    /// Columns are in this order as they are: it is the order of the rows.
    None,
    /// Columns were moved by `group_spread`. A partition is the bits of an id from this bit on; rows of a partition are
    /// in any order.
    Spread(u32),
    /// All columns were moved.
    Moved,
    /// By a gather of row ids.
    Gathered,
    /// By partitioning the keys again together with the column, for columns of 4 and 8 bytes. Others are gathered.
    ToParts(Partitioner<'a>),
    /// By sorting these ids again together with the column, for columns of 4 and 8 bytes. The ids differ in these bits.
    OrderedRows(&'a Memory, u64),
}

/// Partitions of `group_spread`: fewer than `PARTITIONS`, for longer contiguous writes. The L2 cache holds the results of
/// several partitions of 2^20 groups.
const SPREAD_PARTITIONS: usize = 96;
/// Rows per block of `group_spread`, and its shared memory: a value, a key and a position for each row.
const SPREAD_ROWS: usize = 8192;
const SPREAD_SHARED: u32 = SPREAD_ROWS as u32 * (8 + 4 + 2);
/// Static shared memory of the kernel besides: two words for each partition.
const SPREAD_COUNTS: u32 = 8 * SPREAD_PARTITIONS as u32;

impl Order<'_> {
    /// The order of its row ids, by which columns are gathered.
    pub(crate) fn of_its_rows(self) -> Self {
        order_of_rows(self.rows, self.n)
    }

    /// How columns get into this order; `None` if they are in it as they are, or if there are none.
    pub(crate) fn materialization(&self) -> Option<Materialization> {
        match self.movement {
            Movement::None => None,
            Movement::Gathered => Some(Materialization::Gfur),
            Movement::Spread(_) | Movement::Moved if self.moved_columns.is_empty() => None,
            Movement::Spread(_)
            | Movement::Moved
            | Movement::ToParts(_)
            | Movement::OrderedRows(..) => Some(Materialization::Gftr),
        }
    }

    /// The bit from which on ids give the partition, where rows of a partition are in any order; `None` in all other
    /// orders.
    pub(crate) fn spread_bit(&self) -> Option<u32> {
        match self.movement {
            Movement::Spread(first_bit) => Some(first_bit),
            _ => None,
        }
    }

    /// Calls `fold` with accumulators whose columns are in this order, and with their results. Results that are
    /// positions of this order are then replaced by row ids, for `groups` groups.
    pub(crate) fn fold(
        &self,
        stream: &Arc<Stream>,
        groups: usize,
        all: &[Accumulator<'_>],
        outs: &[Memory],
        fold: &mut FoldColumns<'_>,
    ) -> Result<()> {
        if matches!(self.movement, Movement::None) || all.is_empty() {
            return fold(all, outs);
        }
        if let Movement::Spread(_) | Movement::Moved = self.movement {
            fold(&self.with_moved_columns(&self.moved_columns, all), outs)?;
            return self.positions_to_rows(stream, groups, all, outs);
        }
        let outs = outs.chunks(MOST_ACCUMULATORS);
        for (all, outs) in all.chunks(MOST_ACCUMULATORS).zip(outs) {
            let mut columns: Vec<(u64, Memory)> = vec![];
            for of in all {
                for (column, width) in reads(of) {
                    if self.of(&columns, column).is_none() {
                        let copy = self.moved(stream, column, width)?;
                        columns.push((column.pointer(), copy));
                    }
                }
            }
            fold(&self.with_moved_columns(&columns, all), outs)?;
            self.positions_to_rows(stream, groups, all, outs)?;
        }
        Ok(())
    }

    /// Replaces results that are positions of this order by row ids, for `groups` groups.
    fn positions_to_rows(
        &self,
        stream: &Stream,
        groups: usize,
        all: &[Accumulator<'_>],
        outs: &[Memory],
    ) -> Result<()> {
        for (of, out) in all.iter().zip(outs) {
            if of.update.is_row() {
                let args = (self.row_ids()?.into(), out.into(), (groups as u32).into());
                // SAFETY: `rows` holds the row ids of all positions; `out` holds positions or no row for `groups`
                // groups.
                unsafe { stream.launch(kernels::GROUP_OUT_ROWS, Shape::rows(groups), &args)? };
            }
        }
        Ok(())
    }

    /// The row id at each position, where they moved with the keys.
    pub(crate) fn row_ids(&self) -> Result<&Memory> {
        let rows = self.rows.as_ref();
        memory(rows.ok_or_else(|| BowtieError::Internal("rows without row ids".into()))?)
    }

    /// The accumulators with their columns replaced by those in this order.
    fn with_moved_columns<'c>(
        &'c self,
        columns: &'c [(u64, Memory)],
        all: &[Accumulator<'c>],
    ) -> Vec<Accumulator<'c>> {
        let of = |of: &Accumulator<'c>| Accumulator {
            values: of.values.and_then(|column| self.of(columns, column)),
            valid: of.valid.and_then(|column| self.of(columns, column)),
            ..*of
        };
        all.iter().map(of).collect()
    }

    /// The copy of a column in this order, if there is one.
    fn of<'c>(&'c self, columns: &'c [(u64, Memory)], column: &Memory) -> Option<&'c Memory> {
        let mut all = self.moved_columns.iter().chain(columns);
        let moved = all.find(|(at, _)| *at == column.pointer());
        moved.map(|(_, copy)| copy)
    }

    /// Moves or gathers a column into this order. `width` is the bytes of a value, 0 for bits.
    fn moved(&self, stream: &Arc<Stream>, column: &Memory, width: usize) -> Result<Memory> {
        match (&self.movement, width) {
            (Movement::ToParts(partitioner), 4 | 8) => {
                Ok(to_partitions(stream, partitioner, column, width, self.n)?.1)
            }
            (Movement::OrderedRows(ids, varying), 4 | 8) => {
                let pairs = match width {
                    4 => NARROW,
                    _ => NARROW_WITH_WORDS,
                };
                let ids = Part::from(*ids);
                match sort::sort_pairs(stream, pairs, ids, Some(column), self.n, *varying)? {
                    Some((_, column)) => Ok(column),
                    None => rows::gather_values(stream, column, self.row_ids()?, self.n, width),
                }
            }
            (_, 0) => rows::gather_bits(stream, column, self.row_ids()?, self.n),
            (_, width) => rows::gather_values(stream, column, self.row_ids()?, self.n, width),
        }
    }
}

/// Whether all columns can move together with the keys, and no accumulator needs row ids.
fn are_movable(all: &[Accumulator<'_>]) -> bool {
    let movable = |(_, width): (&Memory, usize)| matches!(width, 4 | 8);
    let needs_no_rows = |of: &Accumulator<'_>| !of.update.is_row() && reads(of).all(movable);
    all.iter().all(needs_no_rows)
}

/// Partitions or sorts rows by mixed keys, all columns in each pass, and `with_rows` row ids, which accumulators that find rows need. Rows of a
/// partition are in any order. Returns the mixed keys in their new order, and the order for aggregation.
pub(crate) fn moved_with(
    stream: &Arc<Stream>,
    (keys, width): (Part<'_>, Width),
    n: usize,
    (columns, with_rows): (&[(&Memory, usize)], bool),
    depth: Depth,
) -> Result<(Memory, Order<'static>)> {
    let mut payload: Vec<PayloadColumn<'_>> = columns
        .iter()
        .map(|(column, bytes)| PayloadColumn {
            values: Some(Part::from(*column)),
            bytes: *bytes,
        })
        .collect();
    if with_rows {
        payload.push(PayloadColumn::ROWS);
    }
    let made = partition::partition(stream, keys, width, n, &payload, depth)?;
    let mut moved = made.columns;
    let rows = match with_rows {
        true => moved.pop().map(|rows| Buffer::cuda(rows, n)),
        false => None,
    };
    let originals = columns.iter().map(|(column, _)| column.pointer());
    let order = Order {
        rows,
        moved_columns: originals.zip(moved).collect(),
        movement: Movement::Moved,
        n,
    };
    Ok((made.keys, order))
}

/// Partitions rows by the hashes of their keys. Returns the keys in partition order, and the order for aggregation.
pub(crate) fn partition_keys<'a>(
    stream: &Arc<Stream>,
    keys: (Part<'a>, Width),
    n: usize,
    all: &[Accumulator<'_>],
    wanted: Option<Materialization>,
) -> Result<(Memory, Order<'a>)> {
    parts(stream, keys, [1, seed(), FIRST_HASH_BIT], n, (all, wanted))
}

/// Partitions rows by their ids, all below `groups`. Returns the ids' words in partition order, and the order for
/// aggregation.
pub(crate) fn partition_ids<'a>(
    stream: &Arc<Stream>,
    ids: Ids<'a>,
    groups: usize,
    n: usize,
    all: &[Accumulator<'_>],
    wanted: Option<Materialization>,
) -> Result<(Memory, Order<'a>)> {
    let may_move = wanted != Some(Materialization::Gfur);
    let is_spread = may_move && groups > FEW_PARTITIONED && can_partition_unordered(stream, n);
    if is_spread && all.len() <= MOST_ACCUMULATORS && are_movable(all) {
        let last = groups.saturating_sub(1);
        let first_bit = (0..usize::BITS).find(|bit| last >> bit < SPREAD_PARTITIONS);
        return spread(stream, ids, first_bit.unwrap_or(0), n, &columns_of(all));
    }
    let bits = usize::BITS - groups.saturating_sub(1).leading_zeros();
    let digits = [0, ids.first, bits.saturating_sub(PARTITION_BITS)];
    parts(
        stream,
        (ids.words.into(), Width::Four),
        digits,
        n,
        (all, wanted),
    )
}

/// Whether the GPU has asynchronous copies to shared memory (compute capability 8.0) and enough shared memory for a
/// tile. The kernel's row numbers have 32 bits, so `n` is below 2^31.
fn can_partition_unordered(stream: &Stream, n: usize) -> bool {
    stream.gpu.capability >= (8, 0)
        && stream.gpu.shared_bytes >= SPREAD_SHARED + SPREAD_COUNTS
        && n < 1 << 31
}

/// Partitions rows with these columns by their ids' bits from `first_bit` on. Rows of a partition are in any order.
fn spread<'a>(
    stream: &Arc<Stream>,
    ids: Ids<'_>,
    first_bit: u32,
    n: usize,
    columns: &[(&Memory, usize)],
) -> Result<(Memory, Order<'a>)> {
    let digits = [0, ids.first, first_bit].map(U32::from);
    let starts = group_partition_starts(stream, (ids.words.into(), Width::Four), &digits, n)?;
    let keys = stream.alloc(n * 4, "partitions")?;
    let moved = columns.iter().map(|(column, width)| {
        let copy = stream.alloc(n * width, "partitions")?;
        Ok((column.pointer(), copy))
    });
    let moved_columns: Vec<(u64, Memory)> = moved.collect::<Result<_>>()?;
    let described = columns.iter().zip(&moved_columns);
    let described = described
        .map(|((column, width), (_, copy))| [column.pointer(), copy.pointer(), *width as u64]);
    let described = match columns.is_empty() {
        true => None,
        false => Some(partition::upload_descriptors(
            stream,
            &described.collect::<Vec<_>>(),
        )?),
    };
    let args = (
        ids.words.into(),
        (n as u32).into(),
        digits[1],
        digits[2],
        (&keys).into(),
        described.as_ref().into(),
        (columns.len() as u32).into(),
        (&starts).into(),
    );
    let shape = Shape {
        shared: SPREAD_SHARED,
        ..Shape::blocks_of(n, SPREAD_ROWS, 512)
    };
    // SAFETY: inputs and outputs hold n keys and values of the columns' widths and do not overlap; memory begins at
    // multiples of 16 bytes; `starts` holds the first position of each partition of these keys.
    unsafe { stream.launch(kernels::GROUP_SPREAD, shape, &args)? };
    let order = Order {
        rows: None,
        moved_columns,
        movement: Movement::Spread(first_bit),
        n,
    };
    Ok((keys, order))
}

fn parts<'a>(
    stream: &Arc<Stream>,
    (keys, bits): (Part<'a>, Width),
    digits: [u32; 3],
    n: usize,
    (all, wanted): (&[Accumulator<'_>], Option<Materialization>),
) -> Result<(Memory, Order<'a>)> {
    check_sortable(n)?;
    let digits = digits.map(U32::from);
    let starts = group_partition_starts(stream, (keys, bits), &digits, n)?;
    let partitioner = Partitioner {
        keys,
        bits,
        digits,
        starts,
    };
    let mut order = Order {
        rows: None,
        moved_columns: vec![],
        movement: Movement::None,
        n,
    };
    let may_move = wanted != Some(Materialization::Gfur);
    let movable = (may_move && are_movable(all)).then(|| all.iter().flat_map(reads).next());
    let keys = match movable.flatten() {
        Some((column, width)) => {
            let (keys, copy) = to_partitions(stream, &partitioner, column, width, n)?;
            order.moved_columns.push((column.pointer(), copy));
            keys
        }
        None => {
            let rows = rows::sequence(stream, 0, n)?;
            let (keys, rows) = to_partitions(stream, &partitioner, memory(&rows)?, 4, n)?;
            order.rows = Some(Buffer::cuda(rows, n));
            keys
        }
    };
    order.movement = match may_move {
        true => Movement::ToParts(partitioner),
        false => Movement::Gathered,
    };
    Ok((keys, order))
}

/// Sorts rows by their ids, all below `groups`. Returns the sorted ids, `None` where they are sorted already, and
/// the order.
pub(crate) fn order_of_ids<'a>(
    stream: &Arc<Stream>,
    ids: &'a Memory,
    groups: usize,
    n: usize,
    (all, wanted): (&[Accumulator<'_>], Option<Materialization>),
) -> Result<(Option<Memory>, Order<'a>)> {
    check_sortable(n)?;
    let varying = match n > 1 {
        true => (groups as u64).next_power_of_two() - 1,
        false => 0,
    };
    let (sorted, rows) = match sort::sort_pairs(stream, NARROW, ids.into(), None, n, varying)? {
        Some((sorted, rows)) => (Some(sorted), Some(Buffer::cuda(rows, n))),
        None => (None, None),
    };
    let widths = columns_of(all).into_iter().map(|(_, width)| width);
    let widths: Vec<usize> = widths.filter(|width| matches!(width, 4 | 8)).collect();
    // Each column is sorted with the ids again.
    let cost = SortedColumns {
        passes: passes(varying),
        bytes: widths.iter().map(|width| width + 4).sum(),
        columns: widths.len(),
        sorted: Sorted::Columns,
        groups,
    };
    let how = match rows.is_none() || widths.is_empty() {
        true => Materialization::Gfur,
        false => cost.chosen(stream, wanted)?,
    };
    let movement = match (&rows, how) {
        (None, _) => Movement::None,
        (Some(_), Materialization::Gftr) => Movement::OrderedRows(ids, varying),
        (Some(_), Materialization::Gfur) => Movement::Gathered,
    };
    let order = Order {
        rows,
        moved_columns: vec![],
        movement,
        n,
    };
    Ok((sorted, order))
}

/// An order by given row ids; `None` is the order of the rows themselves.
pub(crate) fn order_of_rows(rows: Option<Buffer<u32>>, n: usize) -> Order<'static> {
    Order {
        movement: match &rows {
            None => Movement::None,
            Some(_) => Movement::Gathered,
        },
        moved_columns: vec![],
        rows,
        n,
    }
}
