// Grouped aggregation by dense ids: the accumulators of some ids are in the shared memory of a thread block cluster,
// those of the others in global memory. Both are updated at the same time, through the network between multiprocessors
// and through L2. No warp waits for either.
// For compute_90.
#include "shared/cluster.cuh"
#include "aggregate/block/group_block.cuh"
#include "aggregate/block/group_found.cuh"

// A place belongs to some block of the cluster: its upper bits are that block's rank.
struct InCluster {
    static constexpr bool SHARED = true;
    static constexpr bool WASTE = false;
    static constexpr bool HALVES = false;
    static constexpr u32 RANK_SHIFT = 16;
    static constexpr u32 PLACE = (1u << RANK_SHIFT) - 1;

    template <typename T>
    static __device__ __forceinline__ T* at(T* array, u32 place) {
        return at_rank(array + (place & PLACE), place >> RANK_SHIFT);
    }
};

// Steps after which a warp tests whether another one has found an id beyond the groups.
constexpr u32 STEPS_BETWEEN_LOOKS = 16;

// Adds the rows to the groups `ids[i] - first_id`. Ids that are not below `groups` are skipped; once one is found, the
// results are invalid, and the remaining rows are skipped. Block r of a cluster of 2^s blocks has the first `places` of
// the ids whose lowest s bits are r, so that neighbouring ids belong to different blocks.
// Bound: ids and values read once, and for each row an atomic or two in some block's shared memory, 70 (16 blocks) to
// 90 G/s (8), or one of 64 bits in global memory, 91 G/s, at the same time (H200).
// Not for MIN and MAX, which have no 64-bit atomic in another block's shared memory, nor for sums of floats, which are
// a compare-and-swap loop there.
// Launch: clusters of a power of two of blocks of 1024, as many as are resident. Dynamic shared memory: 4 bytes for
// each word of each of `places` accumulators, which are even and fewer than 2^16. `found`, COPIES times COPY_WORDS
// words, is zeroed first.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS, 1)
    group_cluster(const u32* __restrict__ ids, u32 first_id, u32 groups, u32 n, u32* found,
                  const __grid_constant__ Accumulators accumulators, u32 places) {
    clear_places(accumulators, places);
    const u32 log_blocks = 31 - __clz(cluster_blocks());
    const u32 ranks = cluster_blocks() - 1;
    cluster_sync();

    u32* const copy = found_by_block(found);
    u32 greatest = 0;
    u32 from_last = 0;
    u32 unsure = 0;
    u32 step = 0;
    const u64 stride = (u64)gridDim.x * (GROUP_THREADS * ROWS);
    for (u64 first = (u64)blockIdx.x * (GROUP_THREADS * ROWS) + threadIdx.x / WARP * WARP_ROWS; first < n; first += stride) {
        Rows rows;
        rows.first = (u32)first + threadIdx.x % WARP;
        u32 id[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            id[k] = __ldcs(ids + min(rows.row(k), n - 1));
            rows.place[k] = rows.row(k) < n ? 0 : NOWHERE;
        }
        // Values are loaded together with the ids.
        const Rows all = rows;
        u64 word[ROWS];
        if (reads_words(accumulators.of[0].update)) {
            read_values<false>(accumulators.of[0].values, accumulators.of[0].kind, all, word);
        }
        rows.outside = false;
        bool beyond = false;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 group = id[k] - first_id;
            if (!rows.somewhere(k)) {
                continue;
            }
            if (group >= groups) {
                beyond = true;
                rows.place[k] = NOWHERE;
                continue;
            }
            greatest = max(greatest, group);
            from_last = max(from_last, groups - 1 - group);
            const u32 place = group >> log_blocks;
            if (place < places) {
                rows.place[k] = (group & ranks) << InCluster::RANK_SHIFT | place;
            } else {
                rows.place[k] = group | IN_GLOBAL;
                rows.outside = true;
            }
        }
        for (u32 a = 0; a < accumulators.count; a++) {
            const Accumulator& of = accumulators.of[a];
            u32* const words = partials_of<InCluster::HALVES>(of, places).words;
            const Rows these = valid_rows(of, rows);
            bool may_be_0 = of.update != SUM;
            if (reads_words(of.update)) {
                if (a > 0) {
                    read_values<false>(of.values, of.kind, all, word);
                }
                const auto group_of = [=](u32 p) { return (p & InCluster::PLACE) << log_blocks | p >> InCluster::RANK_SHIFT; };
                update_words<InCluster>(of, words, places, these, word, group_of, may_be_0);
            } else {
                update_rows<InCluster>(of, words, places, accumulators.capacity, these);
            }
            unsure |= (u32)may_be_0 << a;
        }
        if (__any_sync(ALL_LANES, beyond)) {
            found_beyond(found);
            break;
        }
        if (step % STEPS_BETWEEN_LOOKS == 0 && __any_sync(ALL_LANES, __ldcg(copy + BEYOND) != 0)) {
            break;
        }
        step++;
    }
    raise(copy + GREATEST, 0, greatest);
    raise(copy + FROM_LAST, 0, from_last);
    if (unsure != 0) {
        atomicOr(copy + UNSURE, unsure);
    }

    // No thread adds to another block's shared memory after this barrier.
    cluster_sync();
    for (u32 p = threadIdx.x; p < places; p += blockDim.x) {
        const u64 group = (u64)p << log_blocks | cluster_rank();
        if (group < groups) {
            flush_plain<InCluster::HALVES>(accumulators, places, p, (u32)group);
        }
    }
}
