//! Chooses how matches are counted: by merging, with a wavelet tree, or by a walk over zone maps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::device::budget::Budget;
use crate::device::data::buffer::Buffer;
use crate::device::data::matches::{Matches, Test};
use crate::device::data::results::{Counted, Counter};
use crate::device::host::theta::merged_fold::{MERGED_POINT, MERGED_QUERY, OneSided, Tested};
use crate::device::host::theta::wavelet_tree::{TASK_ROWS, Wavelet};
use crate::device::host::theta::zone_map::{HostMatches, ZonedKeys, sampled_leaf_tests};
use crate::device::wavelet::Costs;
use crate::error::{BowtieError, Result};

/// Nanoseconds of one core: a leaf test with 256-bit vectors; build and count of a tree for each position, with 10^6
/// random keys a side.
const HOST: Costs = Costs {
    leaf_test: 8.0,
    begin: 10_000.0,
    build: 70.0,
    count: 300.0,
};

/// Nanoseconds of one core for each position of both sides that are merged, with 10^6 a side.
const MERGED: f64 = 65.0;

/// The match counts by probe position by merging or from a wavelet tree, where that is estimated to be faster than a walk; `None` where
/// it is not. Fails with out-of-memory if it does not fit.
pub(crate) fn count_matches(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    exists_only: bool,
    cancelled: &AtomicBool,
) -> Result<Option<Counted>> {
    let built = |test: &Test<'_>| Ok(test.build.0.get::<ZonedKeys>()?.wavelet.get().is_some());
    let leaf_tests = || Ok(sampled_leaf_tests(&HostMatches::new(&matches)?));
    let Some(index) = HOST.index(matches, exists_only, built)? else {
        return Ok(None);
    };
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let merged = MERGED * (n + m) as f64;
    // A tree that is built serves further probe rows: without it, merging must cost less than its counts alone.
    if merged < HOST.count * m as f64
        && HOST.walk_exceeds(merged, matches, leaf_tests)?
        && let Some(counts) = count_by_merging(budget, matches, cancelled)?
    {
        return Ok(Some(Counter::Merge.of(counts)));
    }
    if !HOST.walk_exceeds(index, matches, leaf_tests)? {
        return Ok(None);
    }
    // If the tree does not fit, an error, so that the caller retries with a smaller tile, which costs less than a walk.
    let counts = count_by_index(budget, matches, cancelled)?;
    Ok(Some(Counter::WaveletTree.of(counts)))
}

/// `None` where ranges have two free ends.
fn count_by_merging(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    cancelled: &AtomicBool,
) -> Result<Option<Buffer<u32>>> {
    let (n, m) = (matches.build.len(), matches.ranges.rows());
    let Some(one_sided) = OneSided::of_matches(matches)? else {
        return Ok(None);
    };
    let scratch = n * MERGED_POINT + m * MERGED_QUERY + one_sided.segment_bytes();
    let _scratch = budget.lease(scratch as u64, "merged counts")?;
    let lease = budget.lease(m as u64 * 4, "match counts")?;
    let ends = (
        &matches.ranges.lo.on_host()?[..],
        &matches.ranges.hi.on_host()?[..],
    );
    let tested = Tested::of(&matches.tests[0])?;
    let add = |a: u32, b: u32| a + b;
    let counts = one_sided.fold(tested, &vec![1; n], ends, (0, &add), cancelled)?;
    Ok(Some(Buffer::host(counts, lease)))
}

fn count_by_index(
    budget: &Arc<Budget>,
    matches: Matches<'_>,
    cancelled: &AtomicBool,
) -> Result<Buffer<u32>> {
    let (lo, hi) = (matches.ranges.lo.on_host()?, matches.ranges.hi.on_host()?);
    let lease = budget.lease(lo.len() as u64 * 4, "match counts")?;
    let test = &matches.tests[0];
    let build: &ZonedKeys = test.build.0.get()?;
    // Concurrent builds give the same tree; the first one is kept.
    let wavelet = match build.wavelet.get() {
        Some(wavelet) => wavelet,
        None => {
            let built = Wavelet::build(budget, build.keys(), cancelled)?;
            build.wavelet.get_or_init(|| built)
        }
    };
    let words = test.probe.0.get::<ZonedKeys>()?.keys();
    let mut counts = vec![0u32; lo.len()];
    counts
        .par_chunks_mut(TASK_ROWS)
        .zip(lo.par_chunks(TASK_ROWS).zip(hi.par_chunks(TASK_ROWS)))
        .zip(words.par_chunks(TASK_ROWS))
        .for_each(|((counts, (lo, hi)), words)| {
            if !cancelled.load(Ordering::Relaxed) {
                wavelet.count(test.op, words, lo, hi, counts);
            }
        });
    match cancelled.load(Ordering::Relaxed) {
        true => Err(BowtieError::Cancelled),
        false => Ok(Buffer::host(counts, lease)),
    }
}
