//! [`DeviceProfile`]: what the sizes of chunks, tiles and output batches depend on.

use std::ops::RangeInclusive;

/// Constants of a device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceProfile {
    /// Pairs of a tile that is tested pair by pair: what takes some tenths of a second, so that its output begins soon.
    pub(crate) tested_pairs: u64,
    /// Rows of a chunk that search an index of sets at once, so that their output begins soon.
    pub(crate) probed_sets: u64,
    /// How many pieces of output are worth computing at the same time.
    pub(crate) concurrent_pieces: usize,
    /// Rows of the first chunk of the streamed side and of the longest one, as each has twice as many as the one before: few enough
    /// to begin and to cancel soon, then enough to keep the device and the bus busy.
    pub(crate) streamed_rows: RangeInclusive<u64>,
    /// Most rows that are grouped at once: the groups of several chunks are merged on the host.
    pub(crate) grouped_rows: u64,
    /// Rows of one piece of output, when memory allows: enough to amortise its overhead.
    pub(crate) piece_rows: usize,
    /// Matches a searching row must have on average for untested ranges to be emitted on the host, as slices of the sorted
    /// side's columns beside repeated values; `None` where expanding and gathering is faster at any length.
    pub(crate) long_range: Option<u64>,
    /// Whether uploading takes long enough to read another chunk of the streamed side meanwhile.
    pub(crate) prefetches: bool,
}

impl DeviceProfile {
    /// The host's cores, of which `threads` work.
    pub(crate) fn of_host(threads: usize) -> Self {
        Self {
            tested_pairs: 1 << 26,
            probed_sets: 1 << 16,
            concurrent_pieces: threads,
            streamed_rows: 1 << 20..=1 << 20,
            // A dropped stream waits for no longer than these take.
            grouped_rows: 1 << 19,
            // Few enough to stay in cache.
            piece_rows: 8192,
            // A batch costs about as much as gathering some hundred rows.
            long_range: Some(1024),
            prefetches: false,
        }
    }

    /// An NVIDIA GPU.
    pub(crate) fn of_gpu() -> Self {
        Self {
            tested_pairs: 1 << 36,
            probed_sets: 1 << 24,
            concurrent_pieces: 1,
            // Each chunk ends with a copy that nothing of the next one overlaps: at 4M rows of 8 bytes the bus is filled by 72 %,
            // at 32M by 99 %.
            streamed_rows: 1 << 22..=1 << 25,
            grouped_rows: u64::MAX,
            // Enough to keep the card and the bus busy.
            piece_rows: 1 << 20,
            // The bus: a run's columns cross it once, its pairs not at all.
            long_range: Some(1024),
            prefetches: true,
        }
    }
}
