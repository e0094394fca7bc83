//! The product of two binary matrices: all overlaps of a block of probe sets with a tile of indexed ones (MM, \[B\]
//! 6.2.2; there is no split into light and heavy sets, as MMJoin, 6.3.1, has it).
//!
//! Rows are bits, so an element of the product is the population count of the AND of two rows. The rows of a tile are
//! read in slices of a few words, which stay in cache for all pairs of the tile. This suits dense sets of a small
//! universe: the cost of a pair does not depend on its number of elements.

use std::ops::Range;

use pulp::Arch;

use crate::device::data::results::SetTally;
use crate::device::host::pace::CancelCheck;
use crate::device::host::sets::block::{BLOCK, Block, SetSearch, Technique};
use crate::device::host::sets::collect::Sink;
use crate::device::host::sets::encode::encoding::Sets;
use crate::device::host::sets::techniques::binary_matrix::{BinaryMatrix, shared};
use crate::error::Result;

/// Indexed sets in a tile.
const TILE: usize = 64;

/// Words of a row in a slice.
const DEPTH: usize = 32;

/// The index of technique `matrix`: the binary matrix of the indexed sets.
#[derive(Debug)]
pub(crate) struct Matrix {
    matrix: BinaryMatrix,
}

impl Matrix {
    pub(crate) fn new(
        sets: &Sets,
        universe: usize,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        Ok(Self {
            matrix: BinaryMatrix::new(sets, 0..universe, check_cancelled)?,
        })
    }

    /// Overlaps of the rows `block` of `probe` with those of `tile`.
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

/// The rows of the probe sets, and their product with a tile.
#[derive(Debug)]
pub(crate) struct Product {
    rows: BinaryMatrix,
    product: Vec<u32>,
}

impl Technique for Matrix {
    type Scratch = Product;

    fn scratch(&self, _: &Sets) -> Product {
        Product {
            rows: BinaryMatrix::empty(BLOCK, self.matrix.words, 0),
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
        // Neighbouring sets have overlapping windows. Where windows are disjoint, each part has tiles of its own.
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
