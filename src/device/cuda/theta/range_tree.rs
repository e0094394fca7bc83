//! Folds over the positions of ranges whose keys are below a bound (`kernels/theta/range_tree.cu`): by a layered range tree, of which one level is
//! held at a time. Positions in the order of their keys, values by position, and ranges with bounds enter; a fold of each range leaves.

use std::sync::Arc;

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan::{self, EXCLUSIVE_U32};
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{U32, U64};
use crate::device::cuda::runtime::kernels::{self, Kernel};
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::theta::sum_kernels::Sum;
use crate::device::cuda::theta::zone_map::ZonesFold;
use crate::device::data::buffer::Buffer;
use crate::error::Result;

/// Values of a tile.
const TILE_BITS: u32 = 11;

const WHAT: &str = "folds under a test";

/// Positions, their values, the positions before each place that are in left halves, and their number; the level's shift, positions and values.
type Split = Kernel<(U64, U64, U64, U32, U32, U64, U64)>;
/// Values, their number, the level's shift, folds of prefixes, and totals of tiles.
type Prefixes = Kernel<(U64, U32, U32, U64, U64)>;
/// Totals of tiles, their number, and the shift of a half in tiles.
type Tiles = Kernel<(U64, U32, U32)>;
/// The level: positions in left halves, prefixes, tiles and shift; ranges, positions below the bounds in the nodes of both edges, folds, whether they
/// have a value, and the number of ranges.
type Descend = Kernel<(U64, U64, U64, U32, U64, U64, U64, U64, U64, U64, U32)>;

/// The kernels of a fold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeFold {
    /// Of a value.
    bytes: usize,
    /// Each byte of the fold of nothing.
    neutral: u8,
    split: Split,
    prefixes: Prefixes,
    tiles: Tiles,
    descend: Descend,
    /// Folds, rows of their positions, folds by row, and the number of positions.
    place: Kernel<(U64, U64, U64, U32)>,
    /// The same fold of matches that a walk finds.
    pub(crate) walk: ZonesFold,
    /// `AnyFold::Kind` of `kernels/theta/match_folds.cuh`.
    pub(crate) kind: u32,
}

/// Wrapping sums of 32 bits.
pub(crate) const SUMS_U32: TreeFold = TreeFold {
    bytes: 4,
    neutral: 0,
    split: kernels::RANGE_TREE_SPLIT32,
    prefixes: kernels::RANGE_TREE_PREFIXES_U32,
    tiles: kernels::RANGE_TREE_TILES_U32,
    descend: kernels::RANGE_TREE_DESCEND_U32,
    place: kernels::RANGE_TREE_PLACE32,
    walk: kernels::ZONES_FOLD_U32,
    kind: 0,
};
pub(crate) const SUMS_U64: TreeFold = TreeFold {
    bytes: 8,
    neutral: 0,
    split: kernels::RANGE_TREE_SPLIT64,
    prefixes: kernels::RANGE_TREE_PREFIXES_U64,
    tiles: kernels::RANGE_TREE_TILES_U64,
    descend: kernels::RANGE_TREE_DESCEND_U64,
    place: kernels::RANGE_TREE_PLACE64,
    walk: kernels::ZONES_FOLD_U64,
    kind: 1,
};
pub(crate) const SUMS_U128: TreeFold = TreeFold {
    bytes: 16,
    neutral: 0,
    split: kernels::RANGE_TREE_SPLIT128,
    prefixes: kernels::RANGE_TREE_PREFIXES_U128,
    tiles: kernels::RANGE_TREE_TILES_U128,
    descend: kernels::RANGE_TREE_DESCEND_U128,
    place: kernels::RANGE_TREE_PLACE128,
    walk: kernels::ZONES_FOLD_U128,
    kind: 2,
};
/// Sums of floats, in an order that depends on positions and keys alone.
pub(crate) const SUMS_F64: TreeFold = TreeFold {
    prefixes: kernels::RANGE_TREE_PREFIXES_F64,
    tiles: kernels::RANGE_TREE_TILES_F64,
    descend: kernels::RANGE_TREE_DESCEND_F64,
    walk: kernels::ZONES_FOLD_F64,
    kind: 3,
    ..SUMS_U64
};
/// The least of order keys with rows, of which the row is placed.
pub(crate) const EXTREMES: TreeFold = TreeFold {
    bytes: 16,
    neutral: 0xFF,
    split: kernels::RANGE_TREE_SPLIT128,
    prefixes: kernels::RANGE_TREE_PREFIXES_EXTREME,
    tiles: kernels::RANGE_TREE_TILES_EXTREME,
    descend: kernels::RANGE_TREE_DESCEND_EXTREME,
    place: kernels::RANGE_TREE_PLACE_EXTREME,
    walk: kernels::ZONES_FOLD_EXTREME,
    kind: 4,
};

impl TreeFold {
    /// The sums of a type's values.
    pub(crate) fn sums_of(sum: &Sum) -> Self {
        match (sum.bytes, sum.by_prefix.is_some()) {
            (4, _) => SUMS_U32,
            (16, _) => SUMS_U128,
            (_, true) => SUMS_U64,
            (_, false) => SUMS_F64,
        }
    }
}

/// Positions in the order of their keys.
pub(crate) struct Points {
    /// The position at each place.
    pub(crate) order: Buffer<u32>,
}

impl Points {
    /// The same in the opposite order.
    pub(crate) fn reversed(self, stream: &Arc<Stream>) -> Result<Self> {
        let n = self.order.len();
        let order = stream.alloc(n * 4, WHAT)?;
        let args = (
            memory(&self.order)?.into(),
            (&order).into(),
            (n as u32).into(),
        );
        // SAFETY: both hold n words.
        unsafe { stream.launch(kernels::RANGE_TREE_REVERSE, Shape::rows(n), &args)? };
        Ok(Self {
            order: Buffer::cuda(order, n),
        })
    }
}

/// Ranges of positions.
#[derive(Clone, Copy)]
pub(crate) struct Queries<'a> {
    pub(crate) lo: &'a Memory,
    pub(crate) hi: &'a Memory,
    /// Of each range, how many of all positions pass its test: the first ones in the order of the keys. With `of_others`, how many do not.
    pub(crate) bounds: &'a Memory,
    pub(crate) of_others: bool,
    pub(crate) m: usize,
}

/// The folds of ranges.
pub(crate) struct Folds {
    fold: TreeFold,
    pub(crate) values: Memory,
    /// A word for each: 0 where nothing was folded.
    pub(crate) some: Memory,
    m: usize,
}

impl Folds {
    /// Stores the folds at the rows of their ranges' positions.
    pub(crate) fn place(&self, stream: &Arc<Stream>, rows: &Memory, out: &Memory) -> Result<()> {
        let args = (
            (&self.values).into(),
            rows.into(),
            out.into(),
            (self.m as u32).into(),
        );
        // SAFETY: there are m folds and m rows, which are below those that `out` has values for.
        unsafe { stream.launch(self.fold.place, Shape::rows(self.m), &args) }
    }
}

/// A level: the position at each place, and its value.
struct Level {
    positions: Memory,
    values: Memory,
}

/// Folds the values, by position, of each range's positions that are below its bound. There are positions and ranges, fewer than 2^31 of each.
/// `check_cancelled` is called at each level; its error ends the fold.
pub(crate) fn fold(
    stream: &Arc<Stream>,
    fold: TreeFold,
    values: &Memory,
    points: &Points,
    queries: Queries<'_>,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Folds> {
    let order = memory(&points.order)?;
    let (n, m) = (points.order.len(), queries.m);
    let edges = [stream.alloc(m * 4, WHAT)?, stream.alloc(m * 4, WHAT)?];
    let args = (
        queries.lo.into(),
        queries.hi.into(),
        queries.bounds.into(),
        u32::from(queries.of_others).into(),
        (n as u32).into(),
        (&edges[0]).into(),
        (&edges[1]).into(),
        (m as u32).into(),
    );
    // SAFETY: all hold m words.
    unsafe { stream.launch(kernels::RANGE_TREE_EDGES, Shape::rows(m), &args)? };
    let folds = Folds {
        fold,
        values: stream.filled(m * fold.bytes, fold.neutral, WHAT)?,
        some: stream.zeroed(m * 4, WHAT)?,
        m,
    };
    let in_order = rows::gather_values(stream, values, order, n, fold.bytes)?;
    let mut above: Option<Level> = None;
    let prefixes = stream.alloc(n * fold.bytes, WHAT)?;
    // A range may end at n itself.
    for shift in (0..usize::BITS - n.leading_zeros()).rev() {
        check_cancelled()?;
        let root = (order, &in_order);
        let of_above = above
            .as_ref()
            .map_or(root, |level| (&level.positions, &level.values));
        let (level, zeros) = level_below(stream, fold, of_above, n, shift)?;
        let tiles = prefixes_of(stream, fold, &level.values, n, shift, &prefixes)?;
        let args = (
            (&zeros).into(),
            (&prefixes).into(),
            tiles.as_ref().into(),
            shift.into(),
            queries.lo.into(),
            queries.hi.into(),
            (&edges[0]).into(),
            (&edges[1]).into(),
            (&folds.values).into(),
            (&folds.some).into(),
            (m as u32).into(),
        );
        // SAFETY: the level is that of n positions, which the ranges are inside of; in each node as many are below a bound as both edges say.
        unsafe { stream.launch(fold.descend, Shape::each(m), &args)? };
        above = Some(level);
    }
    Ok(folds)
}

/// Partitions the positions of each node of the level above, and their values, into halves of 2^`shift` positions. Also returns how many before each
/// place above are in left halves.
fn level_below(
    stream: &Arc<Stream>,
    fold: TreeFold,
    (positions, values): (&Memory, &Memory),
    n: usize,
    shift: u32,
) -> Result<(Level, Memory)> {
    let marks = stream.alloc(n * 4, WHAT)?;
    let args = (
        positions.into(),
        (n as u32).into(),
        shift.into(),
        (&marks).into(),
    );
    // SAFETY: both hold n words.
    unsafe { stream.launch(kernels::RANGE_TREE_LEFT, Shape::rows(n), &args)? };
    let zeros = scan::scan(stream, EXCLUSIVE_U32, &marks, n, WHAT)?;
    let level = Level {
        // The marks are read, and have the room.
        positions: marks,
        values: stream.alloc(n * fold.bytes, WHAT)?,
    };
    let args = (
        positions.into(),
        values.into(),
        (&zeros).into(),
        (n as u32).into(),
        shift.into(),
        (&level.positions).into(),
        (&level.values).into(),
    );
    // SAFETY: positions are 0 .. n, node by node, so that each has its place in the level.
    unsafe { stream.launch(fold.split, Shape::rows(n), &args)? };
    Ok((level, zeros))
}

/// Writes the fold of each half up to each of its places. Returns the folds up to the ends of tiles if halves are longer than these.
fn prefixes_of(
    stream: &Arc<Stream>,
    fold: TreeFold,
    values: &Memory,
    n: usize,
    shift: u32,
    prefixes: &Memory,
) -> Result<Option<Memory>> {
    let tiles = n.div_ceil(1 << TILE_BITS);
    let totals = match shift > TILE_BITS {
        true => Some(stream.alloc(tiles * fold.bytes, WHAT)?),
        false => None,
    };
    let args = (
        values.into(),
        (n as u32).into(),
        shift.into(),
        prefixes.into(),
        totals.as_ref().into(),
    );
    let shape = Shape::blocks_of(n, 1 << TILE_BITS, 256);
    // SAFETY: values and prefixes hold n values, totals one for each tile.
    unsafe { stream.launch(fold.prefixes, shape, &args)? };
    if let Some(totals) = &totals {
        let args = (
            totals.into(),
            (tiles as u32).into(),
            (shift - TILE_BITS).into(),
        );
        // SAFETY: `totals` holds a value for each tile.
        unsafe { stream.launch(fold.tiles, Shape::blocks_of(1, 1, 256), &args)? };
    }
    Ok(totals)
}
