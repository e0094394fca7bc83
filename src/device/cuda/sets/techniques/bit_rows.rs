//! The techniques `bitmap` and `matrix`: rows of bits, one bit for each element of a small universe
//! (`kernels/sets/techniques/set_bitmap.cu`, `kernels/sets/techniques/set_matrix.cu`). Rows are compared pair by pair
//! (BI, naive, \[B\] 6.2.1), or multiplied as binary matrices on tensor cores (MM, \[B\] 6.2.2).

use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::error::Result;

/// The rows of bits of the indexed side.
#[derive(Debug)]
pub(crate) struct Bits {
    rows: Memory,
    /// Words of 32 bits of a row.
    words: usize,
    /// Whether rows are multiplied (MM).
    product: bool,
}

/// Sets of each side that a block compares.
pub(crate) const SIDE: usize = 128;

/// Words of 32 bits of a row, a multiple of four for vector loads.
pub(crate) fn words_for(universe: usize) -> usize {
    universe.div_ceil(32).next_multiple_of(4).max(4)
}

/// Whether the GPU multiplies bits. Later ones emulate that by many products of bytes.
pub(crate) fn has_products_of_bits(stream: &Stream) -> bool {
    ((8, 0)..(10, 0)).contains(&stream.gpu.capability)
}

/// A row of `words` words per set, in which element `e`, from `least` on, is bit `(e - least) & mask`.
pub(crate) fn bit_rows(
    stream: &Arc<Stream>,
    sets: &Sets,
    words: usize,
    mask: u32,
    least: usize,
) -> Result<Memory> {
    let rows = stream.zeroed(sets.len * words * 4, "bits of sets")?;
    let structure = sets.structure();
    let args = (
        (&structure).into(),
        (words as u32).into(),
        mask.into(),
        (least as u32).into(),
        (&rows).into(),
    );
    let shape = Shape::blocks_of(sets.len, 32, 256);
    // SAFETY: elements are below the universe, and rows have a bit for each of it, or for each number that the mask
    // allows.
    unsafe { stream.launch(kernels::SET_BITMAP_BUILD, shape, &args)? };
    Ok(rows)
}

impl Bits {
    pub(crate) fn new(
        stream: &Arc<Stream>,
        sets: &Sets,
        universe: usize,
        product: bool,
    ) -> Result<Self> {
        let words = words_for(universe);
        Ok(Self {
            rows: bit_rows(stream, sets, words, u32::MAX, 0)?,
            words,
            product,
        })
    }

    pub(crate) fn prepare<'a>(&'a self, search: Search<'a>) -> Result<PreparedProbe<'a>> {
        let windows = search.windows()?;
        let (_, candidates) = search.pairs_in(&windows)?;
        let rows = bit_rows(search.stream, search.probe, self.words, u32::MAX, 0)?;
        let containment = search.measure.is_contained() || search.measure.is_contains();
        let kernel = match self.product {
            true if has_products_of_bits(search.stream) => kernels::SET_MATRIX_AND,
            true => kernels::SET_MATRIX_BYTES,
            false => kernels::SET_BITMAP_OVERLAP,
        };
        Ok(PreparedProbe {
            candidates,
            run: Box::new(move |to| {
                let (lo, hi) = (memory(&windows.lo)?, memory(&windows.hi)?);
                let most = 16 * search.stream.gpu.multiprocessors as usize;
                let tiles = search.indexed.len.div_ceil(SIDE);
                let slices = |blocks: usize| most.div_ceil(blocks).min(tiles);
                let cost = self.words as f64 / 4.0;
                search.test_windows(SIDE, cost, &slices, to, &|shape, join| {
                    let (words, rows) = ((self.words as u32).into(), (&rows).into());
                    let (indexed, lo, hi) = ((&self.rows).into(), lo.into(), hi.into());
                    if containment && !self.product {
                        let contains = u32::from(search.measure.is_contains()).into();
                        let args = (join.into(), contains, words, rows, indexed, lo, hi);
                        // SAFETY: each set has a row of `words` words, each probe set a window.
                        return unsafe {
                            let kernel = kernels::SET_BITMAP_CONTAINED;
                            search.stream.launch(kernel, shape, &args)
                        };
                    }
                    let args = (join.into(), words, rows, indexed, lo, hi);
                    // SAFETY: the same.
                    unsafe { search.stream.launch(kernel, shape, &args) }
                })
            }),
        })
    }
}
