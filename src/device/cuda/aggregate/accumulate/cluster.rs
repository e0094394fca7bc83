//! Accumulators in the shared memory of thread block clusters for a share of the ids, and in global memory for the
//! others (`kernels/aggregate/group_cluster.cu`). Used if two teams of blocks (`shared_layout.rs`) cannot hold the
//! accumulators of all ids in shared memory, on cards with clusters (compute capability 9.0).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::device::cuda::aggregate::accumulate::accumulator::{
    Accumulator, MOST_ACCUMULATORS, shared_words,
};
use crate::device::cuda::aggregate::accumulate::added::AddedInGlobal;
use crate::device::cuda::aggregate::directory::Ids;
use crate::device::cuda::runtime::kernels;
use crate::device::cuda::runtime::launch::Shape;
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// How a launch distributes ids over clusters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Clusters {
    /// Blocks of a cluster: a power of two.
    pub(crate) blocks: u32,
    /// Groups with accumulators in each block: an even number.
    pub(crate) places: usize,
    /// The number of clusters that are resident at the same time.
    pub(crate) at_once: u32,
}

/// The blocks of a cluster, and the share of the rows that is best added there while the others are added in global
/// memory: with more blocks, distributed shared memory is slower. One SUM of 64 bits, ms for 2^28 rows on an H200, of
/// 2^16 to 2^20 ids in a kernel of its own, where global memory only takes 2.95:
///
/// | ids | 2 blocks | 4 | 8 | 16 |
/// |---|---|---|---|---|
/// | 2^16 | 1.43 (80 %) | 1.82 (60 %) | 1.91 (50 %) | 2.16 (50 %) |
/// | 2^17 | 2.04 (40 %: more do not fit) | 1.86 (60 %) | 1.91 (50 %) | 2.11 (40 %) |
/// | 2^18 | 2.51 (20 %) | 2.16 (40 %) | 1.91 (50 %) | 2.14 (40 %) |
/// | 2^19 | 2.74 (11 %) | 2.51 (22 %) | 2.02 (43 %) | 2.00 (40 %) |
/// | 2^20 | | 2.73 (11 %) | 2.51 (22 %) | 2.01 (40 %) |
const SIZES: [(u32, f64); 4] = [(2, 0.8), (4, 0.6), (8, 0.5), (16, 0.4)];
/// If less than this part of the share fits, a cluster of more blocks is better.
const ENOUGH: f64 = 0.75;
/// The kernel's indices of accumulators have 16 bits.
const MOST_PLACES: usize = 1 << 16;
/// Clusters gain nothing if they hold fewer than one in this number of ids.
const LEAST_SHARE: usize = 16;
/// The least rows for each accumulator of all clusters: the clusters' accumulators are added to the results at the end.
const ROWS_PER_PLACE: usize = 4;
/// At least this many of four multiprocessors must have a block: clusters do not always fill all GPCs of a card.
const BUSY: u32 = 3;

/// Rows that a block reads per step, and its threads.
const STEP_ROWS: usize = 4096;
const THREADS: u32 = 1024;

impl Clusters {
    /// For `groups` groups with accumulators of `words` words per group, in `bytes` of each block's shared memory.
    /// `at_once` returns how many clusters of the given blocks, with the given bytes each, are resident at the same
    /// time on `multiprocessors`. `None` where clusters gain nothing.
    fn of(
        (groups, words): (usize, usize),
        bytes: usize,
        multiprocessors: u32,
        mut at_once: impl FnMut(u32, usize) -> Result<u32>,
    ) -> Result<Option<Self>> {
        let mut chosen = None;
        for (blocks, share) in SIZES {
            let best = best((groups, share), blocks);
            let places = places(best, words, bytes);
            let clusters = at_once(blocks, 4 * words * places)?;
            if 4 * clusters * blocks < BUSY * multiprocessors {
                break;
            }
            chosen = Some(Self {
                blocks,
                places,
                at_once: clusters,
            });
            if places as f64 >= ENOUGH * best as f64 {
                break;
            }
        }
        Ok(chosen.filter(|of| LEAST_SHARE * of.groups() >= groups))
    }

    /// The number of groups in a cluster's shared memory.
    fn groups(&self) -> usize {
        self.blocks as usize * self.places
    }
}

/// Accumulators of each block for that share of the groups.
fn best((groups, share): (usize, f64), blocks: u32) -> usize {
    (groups as f64 * share / f64::from(blocks)).ceil() as usize
}

/// As many of them as fit.
fn places(best: usize, words: usize, bytes: usize) -> usize {
    let most = (bytes / 4 / words).min(MOST_PLACES - 1) / 2 * 2;
    best.next_multiple_of(2).min(most)
}

/// Whether the rows suffice for the smallest number of accumulators of any cluster size, on a card whose
/// multiprocessors are mostly busy.
fn may_be_worth(
    rows: usize,
    (groups, words): (usize, usize),
    bytes: usize,
    multiprocessors: u32,
) -> bool {
    let least = SIZES.map(|(blocks, share)| places(best((groups, share), blocks), words, bytes));
    let least = least.into_iter().min().unwrap_or(0);
    rows / ROWS_PER_PLACE >= least * (BUSY * multiprocessors / 4) as usize
}

/// The clusters that `rows` rows of `groups` groups are added by; `None` where the card has none, or they gain
/// nothing: so for sums of floats, as only global memory has an atomic for them.
pub(crate) fn clusters(
    stream: &Stream,
    rows: usize,
    groups: usize,
    all: &[Accumulator<'_>],
) -> Result<Option<Clusters>> {
    let refuses = &stream.gpu.refuses_clusters;
    if stream.gpu.capability < (9, 0)
        || refuses.load(Relaxed)
        || all.iter().any(|of| of.update.is_of_floats())
    {
        return Ok(None);
    }
    let words = shared_words(all);
    let bytes = stream.gpu.shared_bytes as usize;
    let multiprocessors = stream.gpu.multiprocessors;
    // With few rows the kernel is not even loaded.
    if !may_be_worth(rows, (groups, words), bytes, multiprocessors) {
        return Ok(None);
    }
    let clusters = Clusters::of((groups, words), bytes, multiprocessors, |blocks, bytes| {
        let shape = Shape {
            blocks,
            slices: 1,
            threads: THREADS,
            shared: bytes as u32,
        };
        // A failure of the occupancy query only disables clusters: the other paths report a fault of the GPU itself.
        let at_once = stream.clusters_at_once(kernels::GROUP_CLUSTER, shape, blocks);
        refuses.fetch_or(at_once.is_err(), Relaxed);
        Ok(at_once.unwrap_or(0))
    })?;
    Ok(clusters.filter(|of| rows / ROWS_PER_PLACE >= of.groups() * of.at_once as usize))
}

/// Adds `rows` > 0 rows by their group ids to the results of `groups` groups, in these clusters' shared memory and
/// in global memory. Rows with ids of `groups` and above are left out.
pub(crate) fn accumulate_in_clusters(
    stream: &Arc<Stream>,
    clusters: Clusters,
    ids: Ids<'_>,
    rows: usize,
    groups: usize,
    all: &[Accumulator<'_>],
    outs: &[Memory],
) -> Result<AddedInGlobal> {
    let Clusters {
        blocks,
        places,
        at_once,
    } = clusters;
    let mut added = AddedInGlobal::new(groups);
    let parts = all
        .chunks(MOST_ACCUMULATORS)
        .zip(outs.chunks(MOST_ACCUMULATORS));
    for (all, outs) in parts {
        let words = shared_words(all);
        let shape = Shape {
            blocks: (rows.div_ceil(STEP_ROWS) as u32)
                .next_multiple_of(blocks)
                .min(at_once * blocks),
            slices: 1,
            threads: THREADS,
            shared: (4 * words * places) as u32,
        };
        added.launch(stream, (all, outs), |found, accumulators| {
            let args = (
                ids.words.into(),
                ids.first.into(),
                (groups as u32).into(),
                (rows as u32).into(),
                found.into(),
                accumulators.into(),
                (places as u32).into(),
            );
            // SAFETY: `ids` holds a word for each row, of which there is at least one, and every column of an
            // accumulator a value and a bit for each; each result is allocated for `groups` groups and holds its
            // neutral element; centers hold a value for each group; `found` is clear; clusters have a power of two
            // of blocks, and the shared memory is that of the places, an even number below 2^16.
            unsafe { stream.launch_in_clusters(kernels::GROUP_CLUSTER, shape, blocks, &args) }
        })?;
    }
    Ok(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: usize = 227 << 10;

    fn on_132(groups: usize, words: usize) -> Option<Clusters> {
        let at_once = |blocks, bytes| {
            assert!(bytes <= H200);
            Ok(match blocks {
                2 => 66,
                4 => 30,
                8 => 15,
                _ => 7,
            })
        };
        Clusters::of((groups, words), H200, 132, at_once).unwrap()
    }

    #[test]
    fn more_groups_need_more_blocks() {
        let blocks = |groups| on_132(groups, 2).map(|of| of.blocks);
        assert_eq!(blocks(1 << 16), Some(2));
        assert_eq!(blocks(1 << 17), Some(4));
        assert_eq!(blocks(1 << 18), Some(8));
        assert_eq!(blocks(1 << 20), Some(16));
        assert_eq!(blocks(1 << 22), Some(16));
        assert_eq!(blocks(1 << 23), None);
        for groups in [1usize, 1000, 1 << 16, 100_000, 1 << 20] {
            for words in [1, 2, 3, 8, 40, 128] {
                if let Some(of) = on_132(groups, words) {
                    assert!(of.places.is_multiple_of(2) && of.places < MOST_PLACES);
                    assert!(4 * words * of.places <= H200);
                }
            }
        }
    }

    #[test]
    fn few_rows_load_no_kernel() {
        let worth = |rows, groups| may_be_worth(rows, (groups, 2), H200, 132);
        assert!(worth(1 << 28, 1 << 16) && worth(1 << 28, 1 << 20) && worth(1 << 24, 1 << 17));
        assert!(!worth(1 << 17, 1 << 17) && !worth(1_000_000, 1 << 20));
        // Wherever clusters are used in the end, the kernel is loaded.
        for groups in [60_000, 1 << 17, 1 << 20, 1 << 22] {
            let Some(of) = on_132(groups, 2) else {
                continue;
            };
            assert!(worth(
                ROWS_PER_PLACE * of.groups() * of.at_once as usize,
                groups
            ));
        }
    }

    #[test]
    fn clusters_that_leave_much_of_the_card_alone_are_not_taken() {
        let at_once = |blocks, _| Ok(if blocks == 16 { 1 } else { 132 / blocks });
        let of = Clusters::of((1 << 20, 2), H200, 132, at_once).unwrap();
        assert_eq!(of.map(|of| of.blocks), Some(8));
        let none = Clusters::of((1 << 20, 2), H200, 132, |_, _| Ok(0)).unwrap();
        assert_eq!(none, None);
    }
}
