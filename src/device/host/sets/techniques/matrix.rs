//! The product of two binary matrices: all overlaps of a block of searching sets with a tile of indexed ones at once (MM and
//! MMJoin, \[B\] 6.2.2 and 6.3.1).
//!
//! Rows are bits, so that an element of the product is a population count of what two rows share. A tile's rows are gone through a
//! few words at a time, which stay in cache for all pairs of the tile. Good where sets are dense and the universe is small: what a
//! pair costs does not depend on how many elements it has.

use std::ops::Range;

use pulp::Arch;

use crate::device::data::results::SetTally;
use crate::device::host::pace::GoOn;
use crate::device::host::sets::block::{BLOCK, Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::binary_matrix::{BinaryMatrix, shared};
use crate::error::Result;

/// Indexed sets of a tile.
const TILE: usize = 64;

/// Words of each row that are multiplied at once.
const DEPTH: usize = 32;

#[derive(Debug)]
pub(crate) struct Matrix {
    matrix: BinaryMatrix,
}

impl Matrix {
    pub(crate) fn new(sets: &Sets, universe: usize, go_on: GoOn<'_>) -> Result<Self> {
        Ok(Self {
            matrix: BinaryMatrix::new(sets, universe, go_on)?,
        })
    }

    /// Adds the overlaps of rows `block` of `probe` with those of `tile`.
    fn multiply(
        &self,
        probe: &BinaryMatrix,
        block: Range<usize>,
        tile: Range<usize>,
        product: &mut [u32],
    ) {
        product.fill(0);
        for from in (0..self.matrix.words).step_by(DEPTH) {
            let words = from..(from + DEPTH).min(self.matrix.words);
            for (i, products) in block.clone().zip(product.chunks_exact_mut(TILE)) {
                let row = &probe.row(i)[words.clone()];
                for (position, product) in tile.clone().zip(products) {
                    *product += shared(row, &self.matrix.row(position)[words.clone()]);
                }
            }
        }
    }
}

/// The searching sets' rows, and their product with a tile.
#[derive(Debug)]
pub(crate) struct Product {
    rows: BinaryMatrix,
    product: Vec<u32>,
}

impl Technique for Matrix {
    type Scratch = Product;

    fn scratch(&self, _: &Sets) -> Product {
        Product {
            rows: BinaryMatrix::empty(BLOCK, self.matrix.words),
            product: vec![0; BLOCK * TILE],
        }
    }

    fn scratch_bytes(&self, _: &Sets) -> u64 {
        (BLOCK * self.matrix.words * 8 + BLOCK * TILE * 4) as u64
    }

    fn block<S: Sink>(
        &self,
        search: &SetSearch<'_>,
        block: &Block,
        scratch: &mut Product,
        sink: &mut S,
    ) -> Result<SetTally> {
        let mut tally = SetTally::default();
        let arch = Arch::new();
        let count = block.windows.len();
        for i in 0..count {
            scratch.rows.set_row(i, search.probe.get(block.first + i));
        }
        // Neighbours have neighbouring windows; where they lie apart, each part has a tile of its own.
        let mut i = 0;
        while i < count {
            let mut window = block.windows[i].clone();
            let mut end = i + 1;
            while end < count && block.windows[end].start <= window.end {
                window.end = window.end.max(block.windows[end].end);
                end += 1;
            }
            for from in window.clone().step_by(TILE) {
                let tile = from..(from + TILE).min(window.end);
                arch.dispatch(
                    #[inline(always)]
                    || self.multiply(&scratch.rows, i..end, tile.clone(), &mut scratch.product),
                );
                for of in i..end {
                    let inside = tile.start.max(block.windows[of].start)
                        ..tile.end.min(block.windows[of].end);
                    let size = search.probe.size(block.first + of);
                    let products = &scratch.product[(of - i) * TILE..(of - i + 1) * TILE];
                    tally.candidates += inside.len() as u64;
                    for position in inside {
                        let overlap = u64::from(products[position - tile.start]);
                        let holds = overlap > 0
                            && search
                                .test
                                .holds(overlap, size, search.indexed.size(position));
                        if holds && !sink.is_full(of) {
                            sink.found(of, position);
                        }
                    }
                }
                search.step(sink)?;
            }
            i = end;
        }
        Ok(tally)
    }
}
