// Which ids have rows, if the results have told it for most ids.
#include "aggregate/group_spread.cuh"
#include "shared/search.cuh"

extern __shared__ ulonglong2 present_shared[];

constexpr u32 PRESENT_THREADS = 1024;
constexpr u32 PRESENT_ITEMS = 8;

// Sets the bit of every id that a row has, if most bits are set already. The rows are partitioned by ids, or all ids
// are in one partition. A bit in shared memory stands for this bit of every `fold`th word of its partition, and is set
// if all of these are; rows that find it clear test their own bit.
// Bound: 4 bytes read a row, and a partition's bits for every block with rows of it. Launch: blocks of 1024, as many as
// are resident, with dynamic shared memory of `fold` words, a power of two; first_bit is from 5 to 31; no id is after
// the bits, which are in `words` words.
extern "C" __global__ void __launch_bounds__(PRESENT_THREADS, 1)
    group_present(const u32* __restrict__ ids, u32 n, u32 first_key, u32 first_bit, u32 fold, u32* bits, u32 words) {
    u32* const here = reinterpret_cast<u32*>(present_shared);
    const PartitionOf partition_of{first_key, first_bit};
    const u32 end = u64(n) * (blockIdx.x + 1) / gridDim.x;
    u32 row = u64(n) * blockIdx.x / gridDim.x;
    while (row < end) {
        const u32 partition = partition_of(ids[row]);
        const u32 partition_end = partition_point(row, end, [&](u32 i) { return partition_of(ids[i]) == partition; });
        const u32 partition_words = 1u << (first_bit - 5);
        u32* const there = bits + partition * partition_words;
        const u32 count = min(partition_words, words - partition * partition_words);
        for (u32 w = threadIdx.x; w < min(fold, count); w += PRESENT_THREADS) {
            u32 word = ~0u;
            for (u32 at = w; at < count; at += fold) {
                word &= there[at];
            }
            here[w] = word;
        }
        __syncthreads();
        const u32 first_id = first_key + (partition << first_bit);
        for (u32 i = row + threadIdx.x; i < partition_end; i += PRESENT_ITEMS * PRESENT_THREADS) {
            u32 id[PRESENT_ITEMS];
#pragma unroll
            for (u32 k = 0; k < PRESENT_ITEMS; k++) {
                id[k] = __ldcs(ids + min(i + k * PRESENT_THREADS, partition_end - 1)) - first_id;
            }
#pragma unroll
            for (u32 k = 0; k < PRESENT_ITEMS; k++) {
                const u32 bit = 1u << id[k] % WARP;
                // The word may be stale, but bits are only ever set.
                if ((here[id[k] / WARP & (fold - 1)] & bit) == 0 && (look_now(there + id[k] / WARP) & bit) == 0) {
                    atomicOr(there + id[k] / WARP, bit);
                }
            }
        }
        __syncthreads();
        row = partition_end;
    }
}
