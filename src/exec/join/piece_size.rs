//! [`PieceSize`]: the length of output pieces, and how many of them a step makes. It adapts to the row width and to
//! allocation failures.

use std::ops::Range;

use crate::device::data::buffer::Buffer;
use crate::device::primitives::device::Device;
use crate::error::Result;

/// The most bytes of a piece: far from the limit of Arrow's 32-bit offsets even if its rows are wider than the mean.
const PIECE_BYTES: u64 = 64 << 20;

/// The number of pieces that a step makes for each concurrent one.
const PIECES_PER_STEP: usize = 4;

/// The most bytes of the pieces of a step, if one is made at a time.
pub(crate) const STEP_BYTES: u64 = PIECE_BYTES * PIECES_PER_STEP as u64;

/// The most matches in a piece of a single probe row. Such a piece may be longer than others, since resuming within a
/// row repeats the walk over its preceding matches.
const LONG_PIECE: u64 = 1 << 17;

/// After this number of steps without an allocation failure, shortened pieces grow.
const STEPS_BEFORE_GROWING: usize = 16;

/// The length and the number of the pieces of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceSize {
    rows: usize,
    pieces: usize,
    /// The length and the number if the whole budget is available.
    full: (usize, usize),
    /// The length if memory does not limit it.
    most: usize,
    /// The longest piece of a single probe row, as a multiple of `rows`.
    longest: u64,
    /// Steps since the last allocation failure.
    undisturbed: usize,
}

impl PieceSize {
    /// The size before the row width is known.
    pub(crate) fn new(device: &dyn Device) -> Self {
        let pieces = device.profile().concurrent_pieces * PIECES_PER_STEP;
        Self {
            rows: device.profile().piece_rows,
            pieces,
            most: device.profile().piece_rows,
            full: (device.profile().piece_rows, pieces),
            longest: 1,
            undisturbed: 0,
        }
    }

    /// Sets the length such that the pieces of a step take at most a quarter of the device's budget, at `row_bytes`
    /// bytes an output row.
    pub(crate) fn fit(&mut self, device: &dyn Device, row_bytes: usize) {
        let row_bytes = row_bytes as u64 + 16;
        let share = device.budget().limit() / 4 / self.full.1 as u64;
        let most = self.most as u64;
        let rows = (share.min(PIECE_BYTES) / row_bytes).clamp(1, most) as usize;
        // Halved pieces keep their length until they may grow.
        if self.rows == self.full.0 {
            self.rows = rows;
        }
        self.full.0 = rows;
        self.rows = self.rows.min(rows);
        self.longest = (PIECE_BYTES / (most * row_bytes)).clamp(1, (LONG_PIECE / most).max(1));
    }

    /// Halves the length, or else the number; false if both are 1.
    pub(crate) fn halve(&mut self) -> bool {
        self.undisturbed = 0;
        if self.rows > 1 {
            self.rows /= 2;
            return true;
        }
        let halved = self.pieces > 1;
        self.pieces = (self.pieces / 2).max(1);
        halved
    }

    /// Called after a step that made its pieces. After some of them the size doubles, since others may have given
    /// memory back.
    pub(crate) fn made(&mut self) {
        self.undisturbed += 1;
        if self.undisturbed >= STEPS_BEFORE_GROWING {
            self.undisturbed = 0;
            self.rows = (self.rows * 2).min(self.full.0);
            self.pieces = (self.pieces * 2).min(self.full.1);
        }
    }

    /// The next pieces of rows `next .. rows`.
    pub(crate) fn of_rows(&self, next: usize, rows: usize) -> Vec<Range<usize>> {
        (next..rows)
            .step_by(self.rows)
            .take(self.pieces)
            .map(|from| from..(from + self.rows).min(rows))
            .collect()
    }

    /// The next pieces of candidates `next .. total`, cut between probe rows where possible.
    pub(crate) fn of_pairs(
        &self,
        device: &dyn Device,
        offsets: &Buffer<u64>,
        next: u64,
        total: u64,
    ) -> Result<Vec<Range<u64>>> {
        let target = self.rows as u64;
        // Shortened pieces are short for lack of memory.
        let most = match self.rows == self.most {
            true => target * self.longest,
            false => target,
        };
        let mut pieces = vec![];
        let mut from = next;
        while from < total && pieces.len() < self.pieces {
            let end = device.piece_end(offsets, from, target, most)?;
            pieces.push(from..end);
            from = end;
        }
        Ok(pieces)
    }
}
