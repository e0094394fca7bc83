//! Chooses how tested matches are counted, by cost: a walk over zone maps, a wavelet tree or brute force. Matches with
//! tests enter, the count of each probe position leaves.

use crate::device::cuda::device::CudaDevice;
use crate::device::cuda::theta::matches_on_host;
use crate::device::cuda::theta::published::brute_force;
use crate::device::cuda::theta::wavelet_index::COSTS;
use crate::device::cuda::theta::wavelet_tree;
use crate::device::cuda::theta::zone_map::{self, on_gpu};
use crate::device::data::matches::{Matches, Test};
use crate::device::data::results::{Counted, Counter};
use crate::error::Result;

/// The match count of each probe position under one test or more, without a compiled filter. If the walk over zone
/// maps is expected to cost more than an alternative, the cheapest alternative counts. `check_cancelled` is called between
/// launches; its error ends the count.
pub(crate) fn count_cheapest(
    device: &CudaDevice,
    matches: Matches<'_>,
    exists_only: bool,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<Counted> {
    let built = |test: &Test<'_>| Ok(on_gpu(test.build)?.wavelet.get().is_some());
    let wavelet = COSTS.index(matches, exists_only, built)?;
    let tiles = brute_force::cost(matches, exists_only);
    let mut counters: Vec<(f64, Counter)> =
        [(wavelet, Counter::WaveletTree), (tiles, Counter::Tiles)]
            .into_iter()
            .filter_map(|(cost, counter)| Some((cost?, counter)))
            .collect();
    counters.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let leaf_tests = || zone_map::sampled_leaf_tests(&device.stream, matches);
    if let Some((cost, counter)) = counters.first()
        && COSTS.walk_exceeds(*cost, matches, leaf_tests)?
    {
        // An out-of-memory error is passed on: a smaller join tile costs less than a walk.
        let counts = match counter {
            Counter::Tiles => brute_force::tiles_count(&device.stream, matches, check_cancelled),
            _ => wavelet_tree::wavelet_count(&device.stream, matches, &matches.tests[0]),
        };
        return Ok(counter.of(counts?));
    }
    match zone_map::zones_count(&device.stream, matches, exists_only, check_cancelled)? {
        Some(counts) => Ok(Counter::Walk.of(counts)),
        None => matches_on_host::count_on_host(device, matches, exists_only),
    }
}
