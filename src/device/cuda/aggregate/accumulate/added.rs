//! Accumulators of groups, and the kernels that add rows to them: by dense ids (`kernels/aggregate/group_dense.cu`, or `kernels/aggregate/group_global.cu` where
//! none is in shared memory; `cluster.rs` where clusters have some), by keys (`kernels/aggregate/group_table.cu`), or in the order of groups (`kernels/aggregate/group_sorted.cu`).

use std::sync::Arc;

use crate::device::cuda::aggregate::accumulate::accumulator::{MOST_ACCUMULATORS, Wanted};
use crate::device::cuda::runtime::launch::{Arg, Given, Structure};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// How rows were added to groups of ids.
#[derive(Debug)]
pub(crate) struct Added {
    /// Whether most groups had room in shared memory.
    pub(crate) inside: bool,
    pub(crate) claims: Option<Memory>,
}

impl Added {
    /// Whether rows were left out, as their ids are of no group. Waits for the kernel.
    pub(crate) fn left_out(&self, queue: &Stream) -> Result<bool> {
        let mut word = [0; 4];
        if let Some(claims) = &self.claims {
            queue.read_few(&mut word, claims, BEYOND * 4)?;
        }
        Ok(word != [0; 4])
    }
}

/// What launches of `group_global` and `group_cluster` find, each of at most [`MOST_ACCUMULATORS`].
#[derive(Debug)]
pub(crate) struct AddedInGlobal {
    launches: Vec<Memory>,
    groups: usize,
}

impl AddedInGlobal {
    /// Of no launch yet.
    pub(crate) fn new(groups: usize) -> Self {
        let launches = vec![];
        Self { launches, groups }
    }

    /// Launches a kernel for the accumulators after these, that puts what it finds there.
    pub(crate) fn launch(
        &mut self,
        queue: &Arc<Stream>,
        (all, outs): (&[Wanted<'_>], &[Memory]),
        launch: impl FnOnce(&Memory, Given<'_>) -> Result<()>,
    ) -> Result<()> {
        let given = structure(all, outs, self.groups);
        let found = queue.zeroed(COPIES * COPY_BYTES, "aggregates")?;
        launch(&found, Given::Accumulators(&given))?;
        self.launches.push(found);
        Ok(())
    }

    /// Launches for the accumulators after these.
    pub(crate) fn extend(&mut self, others: Self) {
        self.launches.extend(others.launches);
    }

    /// Waits for the kernels.
    pub(crate) fn found(&self, queue: &Stream) -> Result<Found> {
        let mut found = Found {
            left_out: false,
            unsure: vec![],
            span: 0,
        };
        let (mut greatest, mut from_last) = (0, 0);
        for launch in &self.launches {
            let mut bytes = [0; COPIES * COPY_BYTES];
            queue.read_few(&mut bytes, launch, 0)?;
            let mut unsure = 0;
            for copy in bytes.chunks_exact(COPY_BYTES) {
                let word = |at: usize| {
                    let word = copy[at * 4..][..4].try_into();
                    u32::from_le_bytes(word.unwrap_or_default())
                };
                found.left_out |= word(0) != 0;
                unsure |= word(1);
                greatest = word(2).max(greatest);
                from_last = word(3).max(from_last);
            }
            found.unsure.push(unsure);
        }
        let end = greatest as usize + 1 + from_last as usize;
        found.span = end.saturating_sub(self.groups - 1);
        Ok(found)
    }
}

/// What was found while rows were added.
#[derive(Debug)]
pub(crate) struct Found {
    /// Whether some rows were left out, as their ids are of no group: then results are of no use.
    pub(crate) left_out: bool,
    /// A bit for each accumulator of a launch.
    unsure: Vec<u32>,
    /// From the first group that has rows to the last.
    pub(crate) span: usize,
}

impl Found {
    /// Whether this accumulator is a sum that is not 0 where it has rows.
    pub(crate) fn tells(&self, accumulator: usize) -> bool {
        let launch = self.unsure.get(accumulator / MOST_ACCUMULATORS);
        launch.is_some_and(|unsure| unsure >> (accumulator % MOST_ACCUMULATORS) & 1 == 0)
    }
}

/// Copies of what blocks find: whether an id was beyond the groups, which results may be 0 though they have rows, the
/// greatest group of a row, and how far the least one is from the last of all.
const COPIES: usize = 64;
const COPY_BYTES: usize = 128;

/// Rows that a block of `group_global` takes.
pub(crate) const GLOBAL_ROWS: usize = 1024;

/// Words of a launch of `group_dense`: what each of at most so many teams has claimed; and whether an id was beyond the groups.
pub(crate) const CLAIM_WORDS: usize = BEYOND + 1;
const BEYOND: usize = 32;

/// Rows that a warp takes at once, and threads of a block, where it has accumulators of its own.
const CLAIM_ROWS: usize = 2048;
pub(crate) const THREADS: u32 = 1024;

/// Rows that a block of `group_sorted` takes.
pub(crate) const SORTED_ROWS: usize = 8192;

/// The accumulators of a launch, with results that have room for `capacity` groups.
pub(crate) fn structure(all: &[Wanted<'_>], outs: &[Memory], capacity: usize) -> Structure<98> {
    let nothing = Arg::from(0u64);
    let mut given = [nothing; 98];
    let mut words = 0;
    for ((of, out), given) in all.iter().zip(outs).zip(given.chunks_exact_mut(6)) {
        given.copy_from_slice(&[
            of.values.into(),
            of.valid.into(),
            of.centers.into(),
            out.into(),
            (of.update as u32, of.kind as u32).into(),
            (words as u32, 0).into(),
        ]);
        words += of.update.shared_words();
    }
    given[96] = (all.len() as u32).into();
    given[97] = (capacity as u64).into();
    Structure(given)
}

impl Stream {
    /// Results for `capacity` groups that nothing was added to.
    pub(crate) fn outs(
        self: &Arc<Self>,
        all: &[Wanted<'_>],
        capacity: usize,
    ) -> Result<Vec<Memory>> {
        all.iter()
            .map(|of| {
                let bytes = capacity * of.update.bytes();
                self.filled(bytes, of.update.neutral(), "aggregates")
            })
            .collect()
    }

    /// Blocks of which each has a multiprocessor to itself.
    pub(crate) fn claiming_blocks(&self, rows: usize) -> usize {
        (self.gpu.multiprocessors as usize).min(rows.div_ceil(CLAIM_ROWS))
    }
}
