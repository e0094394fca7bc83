//! The technique `intersect`: pair by pair, for few huge sets (`kernels/sets/techniques/set_intersect.cu`; IP-OBS,
//! \[B\] 6.2.1). All pairs of near sizes are listed, and cut into tiles of equal work.

use crate::device::cuda::columns::rows;
use crate::device::cuda::columns::scan;
use crate::device::cuda::runtime::access::memory;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::sets::search::{PreparedProbe, Search};
use crate::device::cuda::theta::range;
use crate::device::data::buffer::Buffer;
use crate::device::data::ranges::OrderedRows;
use crate::error::Result;

/// The larger set of a pair is searched, not merged, if it has at least this many times the size of the smaller.
const SEARCHED_FROM: u32 = 16;

/// Pairs that are listed together, at most, and elements of the pairs of the first launch.
const MOST_PAIRS: usize = 1 << 22;
const FIRST_ELEMENTS: usize = 1 << 31;

/// Prepares the launches; there is no index.
pub(crate) fn prepare(search: Search<'_>) -> Result<PreparedProbe<'_>> {
    let windows = search.windows()?;
    let (offsets, candidates) = search.pairs_in(&windows)?;
    let stream = search.stream;
    let probe = OrderedRows::of_rows(rows::sequence(stream, 0, search.probe.len)?);
    let indexed = OrderedRows::of_rows(rows::sequence(stream, 0, search.indexed.len)?);
    let elements = search.probe.mean() + search.indexed.mean();
    let first = (FIRST_ELEMENTS / elements.max(1)).clamp(1, MOST_PAIRS);
    Ok(PreparedProbe {
        candidates,
        run: Box::new(move |to| {
            let join = search.join(0, to);
            let (of_probe, of_indexed) = (search.probe.structure(), search.indexed.structure());
            let piece = |from: usize, n: usize| -> Result<()> {
                let pairs = range::expand_ranges(
                    stream,
                    &indexed,
                    &probe,
                    &windows,
                    &offsets,
                    from as u64,
                    n,
                )?;
                let (rs, ss) = (memory(&pairs.probe)?, memory(&pairs.build)?);
                let tiles = stream.alloc(n * 4, "pairs of sets")?;
                let overlaps = stream.zeroed(n * 4, "pairs of sets")?;
                let args = (
                    (&of_probe).into(),
                    (&of_indexed).into(),
                    rs.into(),
                    ss.into(),
                    (n as u32).into(),
                    SEARCHED_FROM.into(),
                    (&tiles).into(),
                );
                // SAFETY: pairs are positions of both sides; `tiles` holds a word per pair.
                unsafe { stream.launch(kernels::SET_INTERSECT_TILES, Shape::each(n), &args)? };
                let tile_offsets = scan::scan_offsets(stream, &Buffer::cuda(tiles, n))?;
                let args = (
                    (&of_probe).into(),
                    (&of_indexed).into(),
                    rs.into(),
                    ss.into(),
                    (n as u32).into(),
                    SEARCHED_FROM.into(),
                    memory(&tile_offsets)?.into(),
                    (&overlaps).into(),
                );
                let mut shape = Shape::each(n);
                shape.blocks = 8 * stream.gpu.multiprocessors;
                // SAFETY: the same; tiles are counted by the same ratio, and `overlaps` holds a word per pair, all
                // zero.
                unsafe { stream.launch(kernels::SET_INTERSECT_COUNTS, shape, &args)? };
                let args = (
                    (&join).into(),
                    rs.into(),
                    ss.into(),
                    (&overlaps).into(),
                    (n as u32).into(),
                );
                // SAFETY: the join is of the same sets.
                unsafe { stream.launch(kernels::SET_INTERSECT_TAKE, Shape::each(n), &args) }
            };
            stream.in_launches(
                candidates as usize,
                1,
                first,
                search.check_cancelled,
                |from, len| {
                    let mut pieces = (from..from + len).step_by(MOST_PAIRS);
                    pieces.try_for_each(|at| piece(at, MOST_PAIRS.min(from + len - at)))
                },
            )
        }),
    })
}
