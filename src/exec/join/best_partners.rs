//! The best partners of rows whose partners are in several tiles, or are found by tests: as-of joins and nearest neighbours where the build
//! side is not one sorted chunk. In: rows of the current right chunk, and all left chunks. Out: no more partners of each row than the join's
//! limit.
//!
//! A tile with all build rows cuts the range of each probe row, and its output is final. Otherwise the best partners of each tile are
//! candidates, of which each row keeps the best ones. Rows are emitted when all tiles are done, so that they can begin anew with fewer rows.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{LexicographicalComparator, SortColumn, concat, take};
use arrow::datatypes::UInt32Type;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::device::batches::batch::DeviceBatch;
use crate::device::primitives::device::Device;
use crate::error::{BowtieError, Result};
use crate::exec::chunk::DeviceChunk;
use crate::exec::join::residual;
use crate::exec::join::row_sink::JoinRun;
use crate::exec::join::slices::Slices;
use crate::exec::join::tiles::probed_tile::{ProbedTile, TileStep};
use crate::exec::join::tiles::tile::{LEAST_ROWS, Tile};
use crate::exec::memory::shrink::Halving;
use crate::exec::memory::step::Step;
use crate::ir::side::Side;
use crate::ops::probe::{ProbeResult, RowPairs};
use crate::spec::partners::{BestPartners, KeyValue};

/// Candidates are reduced to the best ones when there are this many times as many as after the last time.
const GROWTH: usize = 2;

impl JoinRun {
    /// Whether all partners that the rows of a tile keep are in it, and no others are among its candidates.
    pub(crate) fn has_final_partners(&self, tile: &ProbedTile) -> bool {
        if self.spec.best_partners.is_none() {
            return true;
        }
        let chunk = &self.matrix.left()[tile.left_chunk];
        let of_partition = self.matrix.left().iter();
        let chunks = of_partition.filter(|other| other.partition() == chunk.partition());
        !tile.whole_filter && chunks.count() == 1 && tile.tile.left == (0..chunk.rows())
    }

    /// Joins the right rows of `tile` and of all further ones of the current right chunk slice by slice.
    pub(crate) fn begin_slices(&mut self, tile: Option<Tile>) {
        let tiles = self.matrix.tiles.drain(..).chain(tile);
        self.sink.slices = Slices::of(tiles);
    }

    /// The best partners of the next slice; `None` if there is no slice.
    pub(crate) fn join_slice(&mut self, step: &Step<'_>) -> Result<Option<Vec<DeviceChunk>>> {
        let Some(rows) = self.sink.slices.0.pop() else {
            return Ok(None);
        };
        match self.best_partners(step, &rows) {
            Ok(made) => {
                self.matrix.left_pool = false;
                Ok(Some(made))
            }
            Err(error) => {
                let on_device = step.may_shrink(&error);
                let on_host = error.is_out_of_host_memory();
                let made_room =
                    (on_device && error.is_out_of_device_memory() && self.matrix.evict())
                        || (on_host && self.matrix.leave_pool_once()?);
                let halves = Halving::down_to(1).halves(&rows);
                if let Some([first, second]) =
                    halves.filter(|_| !made_room && (on_device || on_host))
                {
                    self.sink.slices.0.extend([second, first]);
                    return Ok(Some(vec![]));
                }
                self.sink.slices.0.push(rows);
                match made_room {
                    true => Ok(Some(vec![])),
                    false => Err(error),
                }
            }
        }
    }

    /// The best partners of some right rows among all left rows of their partition.
    fn best_partners(&mut self, step: &Step<'_>, rows: &Range<usize>) -> Result<Vec<DeviceChunk>> {
        let partition = self.matrix.right().map(|chunk| chunk.partition());
        let chunks = self.matrix.left().iter().enumerate();
        let mut tiles: Vec<Tile> = chunks
            .filter(|(_, chunk)| Some(chunk.partition()) == partition)
            .map(|(left_chunk, chunk)| Tile {
                pass: None,
                left_chunk,
                left: 0..chunk.rows(),
                right: rows.clone(),
            })
            .collect();
        let mut best = Candidates::new(self.candidates_reservation()?);
        while let Some(tile) = tiles.pop() {
            self.matrix.relieve_pool(tile.left_chunk)?;
            let halves = Halving::down_to(LEAST_ROWS).halves(&tile.left);
            match (self.candidates_of(&tile, step), halves) {
                (Err(error), Some([first, second])) if step.may_shrink(&error) => {
                    self.matrix.resident_left = None;
                    tiles.extend([second, first].map(|half| tile.with(Side::Left, half)));
                }
                // After a failure from here on the slice begins anew.
                (added, _) => best.add_all(added?)?,
            }
            if best.have_grown() {
                self.keep_best(&mut best)?;
            }
        }
        self.keep_best(&mut best)?;
        let made = best
            .pieces
            .into_iter()
            .filter(|piece| !piece.rows.is_empty());
        Ok(made
            .map(|piece| DeviceChunk::Resident(piece.output))
            .collect())
    }

    /// The best matches of a tile.
    fn candidates_of(&mut self, tile: &Tile, step: &Step<'_>) -> Result<Candidates> {
        let TileStep::Searched(tile) = self.matrix.step(step, tile, ProbeResult::Pairs, None)?
        else {
            return Err(BowtieError::Internal("a single pass of partners".into()));
        };
        self.metrics.chunks.add(1);
        let device = Arc::clone(&self.device);
        let offsets = tile.search.offsets(device.as_ref())?;
        let total = device.total(&offsets)?;
        self.metrics.candidate_pairs.add(total as usize);
        let mut added = Candidates::new(self.candidates_reservation()?);
        let mut next = 0;
        while next < total {
            device.check_cancelled()?;
            let pieces = self.size.of_pairs(device.as_ref(), &offsets, next, total)?;
            for piece in &pieces {
                let len = (piece.end - piece.start) as usize;
                let spec = Arc::clone(&self.spec);
                let pairs =
                    tile.matching_pairs(device.as_ref(), &spec, &offsets, piece.start, len)?;
                if pairs.len() > 0 {
                    if spec.flags_side(Side::Right) {
                        let (flags, first) = self.flags(Side::Right, &tile.tile)?;
                        device.set_flags(flags, first, pairs.of(Side::Right))?;
                    }
                    added.add(self.piece_of(&tile, &pairs)?)?;
                }
            }
            next = pieces.last().map_or(total, |piece| piece.end);
            if added.have_grown() {
                self.keep_best(&mut added)?;
            }
        }
        self.keep_best(&mut added)?;
        Ok(added)
    }

    /// An empty reservation in the memory pool, for what candidates have on the host.
    fn candidates_reservation(&self) -> Result<MemoryReservation> {
        let right = self.matrix.right();
        let right =
            right.ok_or_else(|| BowtieError::Internal("partners of no right chunk".into()))?;
        Ok(right.reservation().new_empty())
    }

    /// Drops all candidates but the best ones of each row.
    fn keep_best(&self, candidates: &mut Candidates) -> Result<()> {
        candidates.keep_best(self.device.as_ref(), self.order()?)
    }

    fn order(&self) -> Result<&BestPartners> {
        let order = self.spec.best_partners.as_ref();
        order.ok_or_else(|| BowtieError::Internal("partners without an order".into()))
    }

    /// The candidates of some pairs of a tile.
    fn piece_of(&self, tile: &ProbedTile, pairs: &RowPairs) -> Result<Piece> {
        let device = self.device.as_ref();
        let keys = self.order()?.keys.iter().map(|key| match &key.value {
            KeyValue::OfColumns(value) => {
                residual::values(device, value, &tile.left, &tile.right, pairs)
            }
            KeyValue::OfSets(value) => self.value_of_pairs(tile, pairs, *value)?.download(device),
        });
        let keys = keys.collect::<Result<_>>()?;
        Ok(Piece {
            rows: Arc::new(UInt32Array::new(device.read(&pairs.right)?, None)),
            keys,
            output: self.rows_of_pairs(tile, pairs)?,
        })
    }
}

/// Candidates of one piece of a tile.
#[derive(Debug)]
struct Piece {
    /// The right row of each.
    rows: ArrayRef,
    /// What partners are ordered by.
    keys: Vec<ArrayRef>,
    output: DeviceBatch,
}

impl Piece {
    /// Bytes on the host beside the output.
    fn host_bytes(&self) -> usize {
        let keys = self.keys.iter().map(|key| key.get_array_memory_size());
        self.rows.get_array_memory_size() + keys.sum::<usize>()
    }

    /// Only these of its candidates.
    fn keep(&mut self, device: &dyn Device, kept: Vec<u32>) -> Result<()> {
        let count = kept.len();
        let kept: ArrayRef = Arc::new(UInt32Array::from(kept));
        let rows = take(&self.rows, &kept, None)?;
        let keys = self.keys.iter().map(|key| take(key, &kept, None));
        let keys = keys.collect::<std::result::Result<_, _>>()?;
        let ids = Arc::into_inner(device.upload(&[kept])?)
            .ok_or_else(|| BowtieError::Internal("the device kept row ids".into()))?
            .into_row_ids()?;
        let columns =
            (0..self.output.columns()).map(|i| self.output.any(i)?.gather(device, &ids).map(Some));
        let output = DeviceBatch::new(count, columns.collect::<Result<_>>()?);
        (self.rows, self.keys, self.output) = (rows, keys, output);
        Ok(())
    }
}

/// Partners of the rows of a slice, among which are the best ones of the tiles so far.
#[derive(Debug)]
struct Candidates {
    pieces: Vec<Piece>,
    /// For the rows and keys of the pieces.
    reservation: MemoryReservation,
    count: usize,
    /// The number that was left when the best ones were kept last.
    kept: usize,
}

impl Candidates {
    fn new(reservation: MemoryReservation) -> Self {
        Self {
            pieces: vec![],
            reservation,
            count: 0,
            kept: 0,
        }
    }

    /// Fails if the memory pool has no room for the piece.
    fn add(&mut self, piece: Piece) -> Result<()> {
        self.reservation.try_grow(piece.host_bytes())?;
        self.count += piece.rows.len();
        self.pieces.push(piece);
        Ok(())
    }

    fn add_all(&mut self, mut others: Self) -> Result<()> {
        others.reservation.free();
        let mut pieces = others.pieces.drain(..);
        pieces.try_for_each(|piece| self.add(piece))
    }

    fn have_grown(&self) -> bool {
        self.count > GROWTH * self.kept.max(LEAST_ROWS)
    }

    fn keep_best(&mut self, device: &dyn Device, order: &BestPartners) -> Result<()> {
        let all = |part: &dyn Fn(&Piece) -> &ArrayRef| {
            let parts: Vec<&dyn Array> = self.pieces.iter().map(|p| part(p).as_ref()).collect();
            concat(&parts)
        };
        if self.pieces.is_empty() {
            return Ok(());
        }
        // All of them in one array each, and their order by row.
        let copied = self.reservation.new_empty();
        copied.try_grow(self.reservation.size() + 8 * self.count)?;
        let rows = all(&|piece| &piece.rows)?;
        let keys = (0..order.keys.len()).map(|i| {
            Ok(SortColumn {
                values: all(&|piece| &piece.keys[i])?,
                options: Some(order.keys[i].options),
            })
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let rows = rows.as_primitive::<UInt32Type>().values();
        let is_kept = first_of_each(rows, &keys, order)?;
        let mut first = 0;
        for piece in &mut self.pieces {
            let flags = &is_kept[first..first + piece.rows.len()];
            first += piece.rows.len();
            let kept: Vec<u32> = (0..flags.len() as u32)
                .filter(|i| flags[*i as usize])
                .collect();
            if kept.len() < flags.len() {
                piece.keep(device, kept)?;
            }
        }
        self.pieces.retain(|piece| !piece.rows.is_empty());
        self.count = self.pieces.iter().map(|piece| piece.rows.len()).sum();
        self.kept = self.count;
        let bytes = self.pieces.iter().map(Piece::host_bytes).sum();
        self.reservation.resize(bytes);
        Ok(())
    }
}

/// Whether each candidate is one of the first ones of its row in the order of the keys.
fn first_of_each(rows: &[u32], keys: &[SortColumn], order: &BestPartners) -> Result<Vec<bool>> {
    // They are numbered in 32 bits; fewer right rows have fewer candidates.
    if u32::try_from(rows.len()).is_err() {
        return Err(BowtieError::MustSplit {
            what: "choice of partners",
            size: rows.len() as u64,
            most: u64::from(u32::MAX),
            unit: "candidates",
        });
    }
    let most = order.most as usize;
    let comparator = LexicographicalComparator::try_new(keys)?;
    let compare = |a: &u32, b: &u32| comparator.compare(*a as usize, *b as usize);
    // Candidates by row: a counting sort.
    let end = rows.iter().max().map_or(0, |row| *row as usize + 1);
    let mut ends = vec![0u32; end + 1];
    for row in rows {
        ends[*row as usize + 1] += 1;
    }
    for row in 0..end {
        ends[row + 1] += ends[row];
    }
    let starts = ends.clone();
    let mut by_row = vec![0u32; rows.len()];
    for (at, row) in rows.iter().enumerate() {
        let next = &mut ends[*row as usize];
        by_row[*next as usize] = at as u32;
        *next += 1;
    }
    let mut is_kept = vec![true; rows.len()];
    for bounds in starts.windows(2) {
        let of_row = &mut by_row[bounds[0] as usize..bounds[1] as usize];
        if of_row.len() <= most {
            continue;
        }
        let (_, last, rest) = of_row.select_nth_unstable_by(most - 1, compare);
        for at in rest {
            let is_tie = order.with_ties && compare(at, last) == Ordering::Equal;
            is_kept[*at as usize] = is_tie;
        }
    }
    Ok(is_kept)
}
