//! What kernels report after they added rows to accumulators, and the accumulators' launch arguments. Rows are added by
//! ids (`kernels/aggregate/group_dense.cu`; `kernels/aggregate/group_global.cu` without shared memory; `cluster.rs`
//! with the shared memory of clusters), by keys (`kernels/aggregate/group_table.cu`), or sorted by group
//! (`kernels/aggregate/group_sorted.cu`).

use std::sync::Arc;

use crate::device::cuda::aggregate::accumulate::accumulator::{Accumulator, MOST_ACCUMULATORS};
use crate::device::cuda::runtime::arguments::{Structure, U64};
use crate::device::cuda::runtime::memory::Memory;
use crate::device::cuda::runtime::stream::Stream;
use crate::error::Result;

/// The outcome of launches of `group_dense`.
#[derive(Debug)]
pub(crate) struct Added {
    /// Whether shared memory held the accumulators of most groups.
    pub(crate) inside: bool,
    /// The claims of the last launch, with the flag for ids beyond the groups.
    pub(crate) claims: Option<Memory>,
}

impl Added {
    /// Whether rows were left out, because their ids are beyond the groups. Waits for the kernel.
    pub(crate) fn left_out(&self, stream: &Stream) -> Result<bool> {
        let mut word = [0; 4];
        if let Some(claims) = &self.claims {
            stream.read_few(&mut word, claims, BEYOND * 4)?;
        }
        Ok(word != [0; 4])
    }
}

/// The reports of launches of `group_global` and `group_cluster`, each for at most [`MOST_ACCUMULATORS`] accumulators.
#[derive(Debug)]
pub(crate) struct AddedInGlobal {
    launches: Vec<Memory>,
    groups: usize,
}

impl AddedInGlobal {
    /// Without a launch yet.
    pub(crate) fn new(groups: usize) -> Self {
        let launches = vec![];
        Self { launches, groups }
    }

    /// Launches a kernel for the next accumulators, with memory for its report.
    pub(crate) fn launch(
        &mut self,
        stream: &Arc<Stream>,
        (all, outs): (&[Accumulator<'_>], &[Memory]),
        launch: impl FnOnce(&Memory, &Accumulators) -> Result<()>,
    ) -> Result<()> {
        let given = structure(all, outs, self.groups);
        let found = stream.zeroed(COPIES * COPY_BYTES, "aggregates")?;
        launch(&found, &given)?;
        self.launches.push(found);
        Ok(())
    }

    /// Appends the launches for the next accumulators.
    pub(crate) fn extend(&mut self, others: Self) {
        self.launches.extend(others.launches);
    }

    /// Combines the reports of all launches. Waits for the kernels.
    pub(crate) fn found(&self, stream: &Stream) -> Result<KernelReport> {
        let mut found = KernelReport {
            left_out: false,
            unsure: vec![],
            span: 0,
        };
        let (mut greatest, mut from_last) = (0, 0);
        for launch in &self.launches {
            let mut bytes = [0; COPIES * COPY_BYTES];
            stream.read_few(&mut bytes, launch, 0)?;
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

/// The combined reports.
#[derive(Debug)]
pub(crate) struct KernelReport {
    /// Whether some rows were left out, because their ids are beyond the groups: then the results are useless.
    pub(crate) left_out: bool,
    /// For each launch a bit for each accumulator: set where a result may be 0 though it has rows.
    unsure: Vec<u32>,
    /// The number of groups from the first to the last one that has rows.
    pub(crate) span: usize,
}

impl KernelReport {
    /// Whether this accumulator is a sum that is not 0 wherever it has rows.
    pub(crate) fn shows_rows(&self, accumulator: usize) -> bool {
        let launch = self.unsure.get(accumulator / MOST_ACCUMULATORS);
        launch.is_some_and(|unsure| unsure >> (accumulator % MOST_ACCUMULATORS) & 1 == 0)
    }
}

/// The copies of a report among which blocks are distributed, and the bytes of one: whether an id was beyond the
/// groups; the accumulators whose results may be 0 though they have rows; the greatest group of a row; and the distance
/// of the least one from the last group.
const COPIES: usize = 64;
const COPY_BYTES: usize = 128;

/// Rows per block of `group_global`.
pub(crate) const GLOBAL_ROWS: usize = 1024;

/// Words of a launch of `group_dense`: the rows claimed by each team, of at most `BEYOND` teams; and whether an id was
/// beyond the groups.
pub(crate) const CLAIM_WORDS: usize = BEYOND + 1;
const BEYOND: usize = 32;

/// Rows that a warp claims at a time, and the threads of a block, in kernels with accumulators in shared memory.
const CLAIM_ROWS: usize = 2048;
/// Threads per block of `group_dense` and `group_table`.
pub(crate) const THREADS: u32 = 1024;

/// Rows per block of `group_sorted`.
pub(crate) const SORTED_ROWS: usize = 8192;

/// `Accumulators` of `kernels/aggregate/block/group_codes.cuh`.
pub(crate) type Accumulators = Structure<98>;

/// The launch argument of the accumulators, with results allocated for `capacity` groups.
pub(crate) fn structure(all: &[Accumulator<'_>], outs: &[Memory], capacity: usize) -> Accumulators {
    let nothing = U64::ZERO;
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
    given[96] = (all.len() as u64).into();
    given[97] = (capacity as u64).into();
    Structure(given)
}

/// Results for `capacity` groups, filled with the neutral elements.
pub(crate) fn outs(
    stream: &Arc<Stream>,
    all: &[Accumulator<'_>],
    capacity: usize,
) -> Result<Vec<Memory>> {
    all.iter()
        .map(|of| {
            let bytes = capacity * of.update.bytes();
            stream.filled(bytes, of.update.neutral(), "aggregates")
        })
        .collect()
}

/// The number of blocks, each with a multiprocessor to itself.
pub(crate) fn claiming_blocks(stream: &Stream, rows: usize) -> usize {
    (stream.gpu.multiprocessors as usize).min(rows.div_ceil(CLAIM_ROWS))
}
