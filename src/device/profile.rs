//! [`DeviceProfile`]: the constants of a device that determine the sizes of chunks, tiles and output batches.

use std::ops::RangeInclusive;

/// The constants of a device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceProfile {
    /// The most pairs of a tile that is tested pair by pair: some tenths of a second, so that the first output comes
    /// early.
    pub(crate) tested_pairs: u64,
    /// The most rows of a chunk that probe an index of sets in one step, so that their output begins early.
    pub(crate) probed_sets: u64,
    /// The number of output batches that are worth computing concurrently.
    pub(crate) concurrent_pieces: usize,
    /// The rows of the first and of the largest chunk of the streamed side; each chunk has twice the rows of the
    /// previous one. Small chunks begin and can be cancelled early; large ones keep the device and the bus busy.
    pub(crate) streamed_rows: RangeInclusive<u64>,
    /// The most rows that are grouped in one step; the groups of several chunks are merged on the host.
    pub(crate) grouped_rows: u64,
    /// The rows of an output batch, if memory allows: enough to amortise its overhead.
    pub(crate) piece_rows: usize,
    /// The least mean number of matches of a probe row from which untested ranges are emitted on the host, as slices of
    /// the build columns beside repeated probe values; `None` if expanding and gathering is always faster.
    pub(crate) long_range: Option<u64>,
    /// The most rows of a stored chunk of a table, if memory allows.
    pub(crate) stored_rows: usize,
    /// Whether an upload takes long enough to read the next chunk of the streamed side meanwhile.
    pub(crate) prefetches: bool,
}

impl DeviceProfile {
    /// The host's cores, with `threads` worker threads.
    pub(crate) fn of_host(threads: usize) -> Self {
        Self {
            tested_pairs: 1 << 26,
            probed_sets: 1 << 16,
            concurrent_pieces: threads,
            // Each chunk is searched by the other side, and sorted on all cores.
            streamed_rows: 1 << 20..=1 << 22,
            // A dropped stream waits at most for the grouping of this number of rows.
            grouped_rows: 1 << 19,
            // Few enough to stay in cache.
            piece_rows: 8192,
            // A batch costs about as much as gathering some hundred rows.
            long_range: Some(1024),
            stored_rows: 1 << 20,
            prefetches: false,
        }
    }

    /// An NVIDIA GPU.
    pub(crate) fn of_gpu() -> Self {
        Self {
            tested_pairs: 1 << 36,
            probed_sets: 1 << 24,
            concurrent_pieces: 1,
            // The last copy of each chunk overlaps nothing of the next chunk: with 4M rows of 8 bytes the bus is
            // utilised to 72 %, with 32M to 99 %.
            streamed_rows: 1 << 22..=1 << 25,
            grouped_rows: u64::MAX,
            // Enough to keep the card and the bus busy.
            piece_rows: 1 << 20,
            // The bus is the limit: the columns of a range cross it once, its matches not at all.
            long_range: Some(1024),
            stored_rows: 1 << 24,
            prefetches: true,
        }
    }
}
