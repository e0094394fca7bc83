//! Output leaves in pieces, several of them made at the same time.

use std::ops::Range;

use crate::device::data::buffer::Buffer;
use crate::device::primitives::device::Device;
use crate::error::Result;

/// Bytes of one piece at most, far from Arrow's 32-bit offsets also where rows are wider than on average.
const PIECE_BYTES: u64 = 64 << 20;

/// Pieces that one step makes for each that runs at the same time.
const PIECES_PER_STEP: usize = 4;

/// A searching row with more pairs than a piece holds makes a piece of up to so many pairs: to begin again inside a row
/// costs a walk over what came before.
const LONG_PIECE: u64 = 1 << 17;

/// Steps without a refused lease after which shortened pieces grow.
const STEPS_BEFORE_GROWING: usize = 16;

/// How long pieces are, and how many a step makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceSize {
    rows: usize,
    pieces: usize,
    /// As long, and as many, as the budget allows when nobody else uses it.
    full: (usize, usize),
    /// Rows of a piece when memory is no concern.
    most: usize,
    /// Longest piece of a single searching row, in pieces.
    longest: u64,
    /// Steps done since a lease was refused.
    undisturbed: usize,
}

impl PieceSize {
    /// Pieces of rows whose width is not known yet.
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

    /// Sizes pieces such that those of one step take at most a quarter of the device's budget, at `row_bytes` a row of
    /// output.
    pub(crate) fn fit(&mut self, device: &dyn Device, row_bytes: usize) {
        let row_bytes = row_bytes as u64 + 16;
        let share = device.budget().limit() / 4 / self.full.1 as u64;
        let most = self.most as u64;
        let rows = (share.min(PIECE_BYTES) / row_bytes).clamp(1, most) as usize;
        // Pieces that were halved stay as they are until they may grow.
        if self.rows == self.full.0 {
            self.rows = rows;
        }
        self.full.0 = rows;
        self.rows = self.rows.min(rows);
        self.longest = (PIECE_BYTES / (most * row_bytes)).clamp(1, (LONG_PIECE / most).max(1));
    }

    /// Half as long, or half as many; false when they cannot be.
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

    /// A step was done. After some of them pieces grow again: what others held may be free by now.
    pub(crate) fn made(&mut self) {
        self.undisturbed += 1;
        if self.undisturbed >= STEPS_BEFORE_GROWING {
            self.undisturbed = 0;
            self.rows = (self.rows * 2).min(self.full.0);
            self.pieces = (self.pieces * 2).min(self.full.1);
        }
    }

    /// The next pieces of consecutive rows `next .. rows`.
    pub(crate) fn of_rows(&self, next: usize, rows: usize) -> Vec<Range<usize>> {
        (next..rows)
            .step_by(self.rows)
            .take(self.pieces)
            .map(|from| from..(from + self.rows).min(rows))
            .collect()
    }

    /// The next pieces of pairs `next .. total`, cut between searching rows where that is possible.
    pub(crate) fn of_pairs(
        &self,
        device: &dyn Device,
        offsets: &Buffer<u64>,
        next: u64,
        total: u64,
    ) -> Result<Vec<Range<u64>>> {
        let target = self.rows as u64;
        // Short pieces are short for lack of memory.
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
