//! The technique `mmjoin`: overlaps in frequent (heavy) elements as a matrix product, those in rare (light) ones from the sets of the pairs that are left
//! (`kernels/sets/techniques/set_mmjoin.cuh`; MMJoin, \[B\] 6.3.1, whose light elements are counted by postings for all pairs).

use std::sync::Arc;

use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::arguments::{Structure, U64};
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::device::cuda::sets::costs::{HEAVY_PAIR, LIGHT_ELEMENT, PRODUCT, PRODUCT_ELEMENT};
use crate::device::cuda::sets::encode::encoded::Sets;
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::device::cuda::sets::techniques::bit_rows::{
    SIDE, bit_rows, has_products_of_bits, words_for,
};
use crate::device::data::buffer::Buffer;
use crate::device::data::ranges::Ranges;
use crate::error::Result;

/// Numbers of heavy elements that are compared: 512, 1024, … (`set_mmjoin_sample`).
const CHOICES: usize = 6;
const LEAST_HEAVY: usize = 512;
pub(crate) const MOST_HEAVY: usize = LEAST_HEAVY << (CHOICES - 1);
/// Pairs of the sample.
const SAMPLES: usize = 1 << 16;

/// The indexed side.
#[derive(Debug)]
pub(crate) struct MmJoin {
    /// Bits of the heavy elements.
    rows: Memory,
    /// Words of 32 bits of a row.
    words: usize,
    /// The first heavy element.
    first_heavy: usize,
    light: Light,
}

/// What is known of the light elements of each set.
#[derive(Debug)]
struct Light {
    counts: Memory,
    signatures: Memory,
}

impl Light {
    fn of(stream: &Arc<Stream>, sets: &Sets, first_heavy: usize) -> Result<Self> {
        let light = Self {
            counts: stream.alloc(sets.len * 4, "light elements")?,
            signatures: stream.alloc(sets.len * 16, "light elements")?,
        };
        let structure = sets.structure();
        let args = (
            (&structure).into(),
            (first_heavy as u32).into(),
            (&light.counts).into(),
            (&light.signatures).into(),
        );
        // SAFETY: both outputs hold a value, of two words of 64 bits or of one of 32, for each set.
        unsafe { stream.launch(kernels::SET_MMJOIN_LIGHT, Shape::each(sets.len), &args)? };
        Ok(light)
    }

    fn structure(&self) -> Structure<2> {
        Structure([U64::from(&self.counts), U64::from(&self.signatures)])
    }
}

/// How many elements are heavy, and the time that this takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Split {
    pub(crate) heavy: usize,
    /// In picoseconds.
    pub(crate) cost: f64,
}

impl Split {
    /// The split that costs least, by a sample of the pairs in windows: their scanned numbers, and their sum.
    pub(crate) fn of(
        search: Search<'_>,
        windows: &Ranges,
        (offsets, pairs): (&Buffer<u64>, u64),
        universe: usize,
    ) -> Result<Self> {
        let samples = SAMPLES.min(usize::try_from(pairs).unwrap_or(SAMPLES));
        let all = Self {
            heavy: universe,
            cost: pairs as f64 * (PRODUCT + PRODUCT_ELEMENT * universe as f64),
        };
        if samples == 0 {
            return Ok(all);
        }
        let passes = search.stream.zeroed(2 * CHOICES * 8, "a sample")?;
        let (probe, indexed) = (search.probe.structure(), search.indexed.structure());
        let measure = search.measure.structure();
        let args = (
            (&probe).into(),
            (&indexed).into(),
            (&measure).into(),
            memory(&windows.lo)?.into(),
            memory(offsets)?.into(),
            pairs.into(),
            (samples as u32).into(),
            (universe as u32).into(),
            (&passes).into(),
        );
        let shape = Shape::each(samples);
        // SAFETY: the structures are of sets and a measure; there is a window for each probe set, and the scanned number of its pairs, and one more.
        unsafe {
            search
                .stream
                .launch(kernels::SET_MMJOIN_SAMPLE, shape, &args)?
        };
        let mut bytes = [0; 2 * CHOICES * 8];
        search.stream.read_few(&mut bytes, &passes, 0)?;
        let words: Vec<u64> = bytes
            .as_chunks()
            .0
            .iter()
            .copied()
            .map(u64::from_le_bytes)
            .collect();
        let split = |k: usize| {
            let heavy = universe.min(LEAST_HEAVY << k);
            let through = words[k] as f64 / samples as f64;
            let light = words[CHOICES + k] as f64 / samples as f64;
            let left = through * HEAVY_PAIR + light * LIGHT_ELEMENT;
            let pair = PRODUCT + PRODUCT_ELEMENT * heavy as f64 + left;
            Self {
                heavy,
                cost: pairs as f64 * pair,
            }
        };
        let splits = (0..CHOICES).map(split);
        let best = splits.min_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(best.unwrap_or(all))
    }
}

impl MmJoin {
    /// With `heavy` of all elements heavy.
    pub(crate) fn new(
        stream: &Arc<Stream>,
        sets: &Sets,
        universe: usize,
        heavy: usize,
    ) -> Result<Self> {
        let words = words_for(heavy);
        let first_heavy = universe - heavy;
        Ok(Self {
            rows: bit_rows(stream, sets, words, u32::MAX, first_heavy)?,
            words,
            first_heavy,
            light: Light::of(stream, sets, first_heavy)?,
        })
    }

    pub(crate) fn prepare<'a>(&'a self, search: Search<'a>) -> Result<PreparedProbe<'a>> {
        let stream = search.stream;
        let windows = search.windows()?;
        let (_, candidates) = search.pairs_in(&windows)?;
        let rows = bit_rows(stream, search.probe, self.words, u32::MAX, self.first_heavy)?;
        let light = Light::of(stream, search.probe, self.first_heavy)?;
        let kernel = match has_products_of_bits(stream) {
            true => kernels::SET_MMJOIN_AND,
            false => kernels::SET_MMJOIN_BYTES,
        };
        Ok(PreparedProbe {
            candidates,
            run: Box::new(move |to| {
                let (lo, hi) = (memory(&windows.lo)?, memory(&windows.hi)?);
                let (of_probe, of_indexed) = (light.structure(), self.light.structure());
                let most = 16 * stream.gpu.multiprocessors as usize;
                let tiles = search.indexed.len.div_ceil(SIDE);
                let slices = |blocks: usize| most.div_ceil(blocks).min(tiles);
                let cost = self.words as f64 / 4.0;
                search.test_windows(SIDE, cost, &slices, to, &|shape, join| {
                    let args = (
                        join.into(),
                        (self.words as u32).into(),
                        (&rows).into(),
                        (&self.rows).into(),
                        (&of_probe).into(),
                        (&of_indexed).into(),
                        lo.into(),
                        hi.into(),
                    );
                    // SAFETY: each set has a row of `words` words, and what is known of its light elements; each probe set has a window.
                    unsafe { stream.launch(kernel, shape, &args) }
                })
            }),
        })
    }
}
