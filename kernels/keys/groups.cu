// Groups of equal tuples, and ranks among distinct tuples. CPU counterparts: src/device/host/keys/group_ids.rs, and
// ranked keys of order_keys.rs.
//
// Tuples are sorted word by word (family sort), the least significant first. Then groups_heads runs for each word, and
// rows_select_* on the heads gives the positions of the distinct tuples; groups_ids or groups_ranks follows. Rows of
// another side find their tuple among the distinct ones by groups_find or groups_rank.
#include <cub/block/block_scan.cuh>

#include "shared/common.cuh"
#include "keys/groups_words.cuh"
#include "shared/search.cuh"

// Which positions begin a run of equal words. With `add` not 0, heads that other words gave stay set. Bound: 8 bytes
// read a row. Launch: blocks of 256, a block for each 1024 rows. Bits past the end are 0.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_heads(const u64* __restrict__ sorted, u32 add, u32* heads, u32 n) {
    each_word(
        n, [=](u32 i) { return i == 0 || sorted[i] != sorted[i - 1]; },
        [=](u32 w, u32 word) { heads[w] = word | (add != 0 ? heads[w] : 0); });
}

// Words of a block: the same rows as a block of rows_select_count, whose scanned counts it needs.
constexpr u32 NUMBERED_WORDS = BLOCK;

// Calls `store(row, run)` for each row of the block; `run` is the number of heads before its position.
template <typename Store>
__device__ __forceinline__ void number_runs(const u32* heads, const u32* block_offsets, const u32* rows, u32 n, Store store) {
    using Scan = cub::BlockScan<u32, BLOCK>;
    __shared__ typename Scan::TempStorage scratch;
    __shared__ u32 words[NUMBERED_WORDS];
    __shared__ u32 heads_before[NUMBERED_WORDS];
    const u32 first = blockIdx.x * NUMBERED_WORDS;
    const u32 w = first + threadIdx.x;
    const u32 word = w < (n + 31) / 32 ? heads[w] : 0;
    u32 before;
    Scan(scratch).ExclusiveSum(__popc(word), before);
    words[threadIdx.x] = word;
    heads_before[threadIdx.x] = block_offsets[blockIdx.x] + before;
    __syncthreads();

    const u32 through_lane = (2u << threadIdx.x % WARP) - 1;
#pragma unroll 4
    for (u32 k = threadIdx.x / WARP; k < NUMBERED_WORDS; k += BLOCK / WARP) {
        const u32 i = (first + k) * WARP + threadIdx.x % WARP;
        if (i < n) {
            // The first position of all is a head, so every position has a head at or before it.
            store(rows == nullptr ? i : rows[i], heads_before[k] + __popc(words[k] & through_lane) - 1);
        }
    }
}

// The number of each row's run. `rows` are those of the sorted positions (null: 0, 1, …); rows that are not among them
// keep their values in `out`. Bound: 4 bytes and a bit read, 4 bytes written at random a row. Launch: blocks of 256, a
// block for each 8192 rows; `block_offsets` is the exclusive scan of the counts of rows_select_count.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_ids(const u32* __restrict__ heads, const u32* __restrict__ block_offsets, const u32* __restrict__ rows,
               u32* __restrict__ out, u32 n) {
    number_runs(heads, block_offsets, rows, n, [=](u32 row, u32 run) { out[row] = run; });
}

// The same as order keys with a gap between neighbours: `2 * run + 1`. 8 bytes written a row.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_ranks(const u32* __restrict__ heads, const u32* __restrict__ block_offsets, const u32* __restrict__ rows,
                 u64* __restrict__ out, u32 n) {
    number_runs(heads, block_offsets, rows, n, [=](u32 row, u32 run) { out[row] = 2 * (u64)run + 1; });
}

// Tuples of `width` words; word `j` of tuple `i` is at `j * rows + i`.
struct Tuples {
    const u64* words;
    u32 rows, width;

    __device__ __forceinline__ u64 word(u32 j, u32 i) const { return words[(u64)j * rows + i]; }
};

// Negative if tuple `i` of `a` comes before tuple `k` of `b`, 0 if they are equal.
__device__ __forceinline__ i32 compare(const Tuples& a, u32 i, const Tuples& b, u32 k) {
    for (u32 j = 0; j < a.width; j++) {
        const u64 left = a.word(j, i);
        const u64 right = b.word(j, k);
        if (left != right) {
            return left < right ? -1 : 1;
        }
    }
    return 0;
}

// First words of the distinct tuples in shared memory: of all tuples, or of every n-th one.
constexpr u32 PIVOTS = 2048;

// The number of smaller distinct tuples, and whether the next one equals the tuple.
struct Found {
    u32 at;
    bool equal;
};

// Calls `store(i, found)` for every tuple with the number of smaller distinct tuples, and whether the next one is
// equal. The first steps of the binary search are in shared memory; the rest reads tuples between two pivots. A row
// that is not valid is found nowhere.
template <typename Store>
__device__ __forceinline__ void find(Tuples distinct, Tuples tuples, const u32* valid, Store store) {
    __shared__ u64 pivots[PIVOTS];
    const u32 apart = (distinct.rows + PIVOTS - 1) / PIVOTS;
    const u32 pivot_count = (distinct.rows + apart - 1) / apart;
    for (u32 p = threadIdx.x; p < pivot_count; p += BLOCK) {
        pivots[p] = distinct.word(0, p * apart);
    }
    __syncthreads();
    each_row_in_turn(
        tuples.rows,
        [&](u32 i) {
            if (!bit_at(valid, i)) {
                return Found{0, false};
            }
            const u64 first = tuples.word(0, i);
            const u32 below = partition_point(0, pivot_count, [&](u32 p) { return pivots[p] < first; });
            // Distinct tuples of one word have no two equal pivots.
            const u32 through =
                distinct.width == 1 ? below : partition_point(below, pivot_count, [&](u32 p) { return pivots[p] <= first; });
            const u32 at = partition_point(below == 0 ? 0 : (below - 1) * apart + 1, min(through * apart, distinct.rows),
                                           [&](u32 d) { return compare(distinct, d, tuples, i) < 0; });
            return Found{at, at < distinct.rows && compare(distinct, at, tuples, i) == 0};
        },
        store);
}

// The group of each tuple among `count` > 0 distinct ones of `width` words, or NO_GROUP. `valid` may be null. Bound:
// the tuple read and 4 bytes written a row; about log2(count / 2048) dependent reads at random. Launch: blocks of 256,
// a grid of any size (8 blocks a multiprocessor).
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_find(const u64* __restrict__ distinct, u32 count, const u64* __restrict__ words, u32 width,
                const u32* __restrict__ valid, u32* __restrict__ out, u32 n) {
    find({distinct, count, width}, {words, n, width}, valid,
         [=](u32 i, Found found) { out[i] = found.equal ? found.at : NO_GROUP; });
}

// The rank of each tuple among the distinct ones: `2 * at + 1` if it equals the one at `at`, `2 * at` if it comes
// before that; 0 for a row that is not valid. As above, with 8 bytes written a row.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_rank(const u64* __restrict__ distinct, u32 count, const u64* __restrict__ words, u32 width,
                const u32* __restrict__ valid, u64* __restrict__ out, u32 n) {
    find({distinct, count, width}, {words, n, width}, valid,
         [=](u32 i, Found found) { out[i] = 2 * (u64)found.at + (found.equal ? 1 : 0); });
}
