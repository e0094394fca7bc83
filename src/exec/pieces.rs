//! Output leaves in pieces, several of them made at the same time.

use std::ops::Range;

use crate::device::{Buffer, Device};
use crate::error::Result;

/// Rows of one piece, when memory allows: enough to amortise its overhead, few enough to stay in cache.
pub(super) const PIECE_ROWS: usize = 8192;

/// Pieces that one step makes for each that runs at the same time.
const PIECES_PER_STEP: usize = 4;

/// A searching row with more pairs than a piece holds makes a piece up to so many times as long: to begin again inside a
/// row costs a walk over what came before.
const LONG_PIECE: u64 = 16;

/// How long pieces are, and how many a step makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceSize {
    rows: usize,
    pieces: usize,
}

impl PieceSize {
    /// Such that the pieces of one step take at most a quarter of the device's budget, at `row_bytes` a row of output.
    pub(super) fn new(device: &dyn Device, row_bytes: usize) -> Self {
        let pieces = device.concurrent_pieces() * PIECES_PER_STEP;
        let room = device.budget().limit() / 4 / pieces as u64 / (row_bytes as u64 + 16);
        Self {
            rows: (room as usize).clamp(1, PIECE_ROWS),
            pieces,
        }
    }

    /// Half as long, or half as many; false when they cannot be.
    pub(super) fn halve(&mut self) -> bool {
        if self.rows > 1 {
            self.rows /= 2;
            return true;
        }
        let halved = self.pieces > 1;
        self.pieces = (self.pieces / 2).max(1);
        halved
    }

    /// The next pieces of consecutive rows `next .. rows`.
    pub(super) fn of_rows(&self, next: usize, rows: usize) -> Vec<Range<usize>> {
        (next..rows)
            .step_by(self.rows)
            .take(self.pieces)
            .map(|from| from..(from + self.rows).min(rows))
            .collect()
    }

    /// The next pieces of pairs `next .. total`, cut between searching rows where that is possible.
    pub(super) fn of_pairs(
        &self,
        device: &dyn Device,
        offsets: &Buffer<u64>,
        next: u64,
        total: u64,
    ) -> Result<Vec<Range<u64>>> {
        let target = self.rows as u64;
        // Short pieces are short for lack of memory.
        let most = match self.rows == PIECE_ROWS {
            true => target * LONG_PIECE,
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
