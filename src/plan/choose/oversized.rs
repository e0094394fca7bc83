//! The cost of inputs larger than the GPU: they are partitioned on the host, or uploaded several times.

use crate::device::profile::DeviceProfile;
use crate::exec::aggregate::grace_aggregate::ROWS_OF_FEW_GROUPS;
use crate::exec::join::grace_join::{Oversized, ROUND};
use crate::exec::partition::partitioner::LEAST_CHUNKS;
use crate::plan::choose::cost::{Flow, Gpu, Host};

/// The columns of a chunk take at most the memory divided by `CHUNK_SHARE`, and a row of it is counted as `CHUNK_ROW_BYTES` of the memory
/// (`ChunkLimits`).
const CHUNK_SHARE: f64 = 8.0;
const CHUNK_ROW_BYTES: f64 = 512.0;
/// Nanoseconds of one core to copy a row, and a byte of it, to its partition: 2^25 ⋈ 2^26 rows of 8 bytes took 1.7 s, 75M rows of 30 bytes of
/// TPC-H Q18 3.1 s, under 256 MB on 16 cores (2026-11-24).
const PARTITIONED_ROW: f64 = 8.0;
const PARTITIONED_BYTE: f64 = 1.1;

/// Upload, filter and projection of a short piece, and its way to a partition, as starts of a node: 0.8 ms of TPC-H Q15 at SF 10 for each
/// of 464 pieces under 256 MB (an H100, 2026-11-26).
const STEPS_OF_A_PIECE: f64 = 2.0;

/// Nanoseconds to merge a group of a chunk with those of others on the host. A chunk with fewer rows for each group is partitioned.
const MERGED_GROUP: f64 = 150.0;

/// The cost of a join whose left side is larger than the GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OversizedCost {
    /// Uploads of the left side.
    pub left_uploads: f64,
    /// Seconds beside these.
    pub seconds: f64,
}

impl Host {
    /// Seconds to partition rows.
    fn partitioning(self, flow: Flow) -> f64 {
        self.parallel(PARTITIONED_ROW * flow.rows + PARTITIONED_BYTE * flow.bytes)
    }
}

impl Gpu {
    fn chunk_rows(&self) -> f64 {
        self.memory as f64 / CHUNK_ROW_BYTES
    }

    /// Seconds to start a node, and each of its chunks on a small device: 0.3 to 1 ms under 256 MB.
    pub(crate) fn node(&self, flow: Flow) -> f64 {
        self.start() * (flow.rows / self.chunk_rows()).max(1.0)
    }

    /// Extra seconds of a scan, and of the filters and projections above it, for `pieces` pieces in place of one. [`Self::node`] counts a
    /// part of them already.
    pub(crate) fn of_pieces(&self, pieces: u64, flow: Flow) -> f64 {
        let pieces = (pieces as f64).max(flow.rows / self.chunk_rows());
        let of_pieces = self.start() * STEPS_OF_A_PIECE * (pieces - 1.0);
        (of_pieces - (self.node(flow) - self.start())).max(0.0)
    }

    fn has_many_chunks(&self, flow: Flow) -> bool {
        let by_rows = flow.rows / self.chunk_rows();
        let by_bytes = flow.bytes / (self.memory as f64 / CHUNK_SHARE);
        by_rows.max(by_bytes) > (LEAST_CHUNKS - 1) as f64
    }

    pub(crate) fn oversized(
        &self,
        method: Oversized,
        left: Flow,
        right: Flow,
        host: Host,
    ) -> OversizedCost {
        let mut cost = OversizedCost {
            left_uploads: 1.0,
            seconds: 0.0,
        };
        if !self.has_many_chunks(left) {
            return cost;
        }
        match method {
            Oversized::KeyBitmap => {}
            Oversized::HashPartitions if self.has_many_chunks(right) => {
                let rounds = right.rows / (ROUND as f64 * left.rows).max(1.0);
                cost.left_uploads = rounds.ceil().max(1.0);
                cost.seconds = host.partitioning(left) + host.partitioning(right);
            }
            Oversized::HashPartitions | Oversized::Tiles => {
                cost.left_uploads = self.streamed_chunks(right);
            }
        }
        cost.seconds += (cost.left_uploads - 1.0) * self.node(left);
        cost
    }

    /// Chunks of a right side, of which each is twice as long as the one before.
    fn streamed_chunks(&self, right: Flow) -> f64 {
        let of_gpu = DeviceProfile::of_gpu().streamed_rows;
        let mut chunk = (*of_gpu.start() as f64).min(self.chunk_rows());
        let most = (*of_gpu.end() as f64).min(self.chunk_rows() / 8.0);
        let (mut rows, mut chunks) = (right.rows, 1.0);
        while rows > chunk && chunk < most {
            rows -= chunk;
            chunks += 1.0;
            chunk *= 2.0;
        }
        chunks + (rows / chunk).ceil().max(1.0) - 1.0
    }

    /// Seconds of an aggregation whose input is larger than the GPU: it is partitioned, or the groups of its chunks are merged.
    pub(crate) fn chunks_of_groups(&self, input: Flow, groups: f64, host: Host) -> f64 {
        if !self.has_many_chunks(input) {
            return 0.0;
        }
        let of_chunk = groups.min(self.chunk_rows());
        match of_chunk * ROWS_OF_FEW_GROUPS as f64 > self.chunk_rows() {
            true => host.partitioning(input),
            false => {
                let merged = (input.rows / self.chunk_rows()).ceil() * of_chunk;
                host.one_core(merged * MERGED_GROUP)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::choose::cost::tests::{H200, HOST, card, flow};

    const SMALL: Gpu = card(256 << 20);

    #[test]
    fn a_left_side_larger_than_the_device_is_partitioned() {
        let (left, right) = (flow(1 << 25, 8), flow(1 << 26, 8));
        let of = |gpu: Gpu, method| gpu.oversized(method, left, right, HOST);
        let nothing = OversizedCost {
            left_uploads: 1.0,
            seconds: 0.0,
        };
        for method in [
            Oversized::HashPartitions,
            Oversized::Tiles,
            Oversized::KeyBitmap,
        ] {
            assert_eq!(of(H200, method), nothing);
        }
        assert_eq!(of(SMALL, Oversized::KeyBitmap), nothing);
        let parts = of(SMALL, Oversized::HashPartitions);
        assert_eq!(parts.left_uploads, 1.0);
        assert!((0.09..0.13).contains(&parts.seconds), "{}", parts.seconds);
        // 0.8 GB went up in 102 ms.
        let up = SMALL.up(left, 1.0, HOST) + SMALL.up(right, 1.0, HOST);
        assert!((0.08..0.13).contains(&up), "{up}");
        assert_eq!(of(SMALL, Oversized::Tiles).left_uploads, 128.0);
        let rounds = SMALL.oversized(Oversized::HashPartitions, left, flow(1 << 30, 8), HOST);
        assert_eq!(rounds.left_uploads, 8.0);
        let few = SMALL.oversized(Oversized::HashPartitions, left, flow(1 << 19, 8), HOST);
        assert!(few.left_uploads < 3.0 && few.seconds < parts.seconds);
    }

    #[test]
    fn pieces_cost_where_there_are_several() {
        let scan = flow(60_000_000, 24);
        assert_eq!(H200.of_pieces(1, scan), 0.0);
        // 464 pieces of TPC-H Q15 at SF 10 took 0.4 s.
        let seconds = SMALL.node(scan) + SMALL.of_pieces(464, scan);
        assert!((0.3..0.5).contains(&seconds), "{seconds}");
        // Those of short rows are as many as the memory has chunks.
        assert!(SMALL.of_pieces(1, scan) > 0.04);
    }

    #[test]
    fn many_groups_are_partitioned_and_few_are_merged() {
        let input = flow(60_000_000, 24);
        assert_eq!(H200.chunks_of_groups(input, 2e6, HOST), 0.0);
        let of = |groups| SMALL.chunks_of_groups(input, groups, HOST);
        assert!(of(4.0) < 1e-3, "{}", of(4.0));
        assert!((0.1..0.4).contains(&of(2e6)), "{}", of(2e6));
    }
}
