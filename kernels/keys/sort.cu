// Sorts row ids by order key: a stable least-significant-digit radix sort of (key, row) pairs, after Adinets & Merrill,
// "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs" (2022).
//
// A sort runs sort_varying_bits; the caller then chooses passes, which are disjoint windows of up to 8 bits in
// ascending order that cover the varying bits. sort_histogram_* runs once for all passes, and sort_onesweep_* once for
// each pass, between two pairs of buffers. sort_segments then finds where the groups of sorted group ids begin.
#include "shared/common.cuh"
#include "keys/sort_histogram.cuh"
#include "keys/sort_onesweep.cuh"

constexpr u32 VARYING_THREADS = 256;

// ORs keys[i] ^ keys[0] into *varying: the bits that are not the same in all keys.
// Bound: 8n bytes read. Launch: blocks of 256, grid-stride, a few blocks a multiprocessor; *varying is zeroed first.
extern "C" __global__ void __launch_bounds__(VARYING_THREADS)
    sort_varying_bits(const u64* keys, u32 n, u64* varying) {
    const u64 first = keys[0];
    u64 bits = 0;
#pragma unroll 4
    for (u32 i = blockIdx.x * VARYING_THREADS + threadIdx.x; i < n; i += gridDim.x * VARYING_THREADS) {
        bits |= keys[i] ^ first;
    }
    for (u32 lanes = 16; lanes > 0; lanes /= 2) {
        bits |= __shfl_xor_sync(~0u, bits, lanes);
    }
    // Most warps find their bits set already. Without this test, thousands of atomics would queue at one address.
    const volatile u64* known = varying;
    if (threadIdx.x % 32 == 0 && (bits & ~*known) != 0) {
        atomicOr(varying, bits);
    }
}

// For every pass and digit, the number of keys with a smaller digit: starts[pass * 256 + digit]. Byte `pass` of
// `first_bits` and of `bit_counts` is the first bit of the pass's digit and its number of bits (1 to 8). The block that
// finishes last turns the counts into starts.
// Bound: the keys read once, and one shared-memory atomic for each key and pass. Launch: blocks of 256, grid-stride
// over tiles of 2048 keys, at most 8 blocks a multiprocessor; `passes` is at most 8 (u64) or 4 (u32); starts[256 *
// passes] and *blocks_done are zeroed first.
extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS) sort_histogram_u64(
    const u64* keys, u32 n, u32 passes, u64 first_bits, u64 bit_counts, u32* starts, u32* blocks_done) {
    histogram(keys, n, passes, first_bits, bit_counts, starts, blocks_done, [](auto key) { return key; });
}

extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS) sort_histogram_u32(
    const u32* keys, u32 n, u32 passes, u64 first_bits, u64 bit_counts, u32* starts, u32* blocks_done) {
    histogram(keys, n, passes, first_bits, bit_counts, starts, blocks_done, [](auto key) { return key; });
}

// One pass: moves n pairs to the output positions of their digits; pairs with the same digit keep their order.
// `rows_in` may be null: the rows are then first_row, first_row + 1, ... `starts` are the 256 words of this pass from
// sort_histogram_*.
// Counts of the look-back have 30 bits: with 2^30 pairs or more, a pass is launched for portions of whole tiles, in
// order. keys_in, rows_in and n are then those of the portion, keys_out and rows_out the whole arrays, and next_starts
// (else null) receives the `starts` of the next portion. Input and output must not overlap.
// Bound: a pair read and written once (u64: 24n bytes, u32: 16n, 4n less without rows_in). Launch: blocks of 384, one
// for each tile of 5760 (u64) or 8832 (u32) pairs, no dynamic shared memory; lookback[256 * tiles] and *next_tile are
// zeroed before each launch. Two blocks a multiprocessor, so that one moves pairs while the other ranks.
extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) sort_onesweep_u64(
    const u64* keys_in, const u32* rows_in, u32 first_row, u32 n, u64* keys_out, u32* rows_out, const u32* starts,
    u32* next_starts, u32 first_bit, u32 bits, i32* lookback, i32* next_tile) {
    onesweep(
        keys_in, rows_in, first_row, n, keys_out, rows_out, starts, next_starts, first_bit, bits, lookback, next_tile);
}

extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) sort_onesweep_u32(
    const u32* keys_in, const u32* rows_in, u32 first_row, u32 n, u32* keys_out, u32* rows_out, const u32* starts,
    u32* next_starts, u32 first_bit, u32 bits, i32* lookback, i32* next_tile) {
    onesweep(
        keys_in, rows_in, first_row, n, keys_out, rows_out, starts, next_starts, first_bit, bits, lookback, next_tile);
}

// The same with 64-bit values beside 32-bit keys, 24n bytes: the column moves with the keys instead of being gathered
// afterwards. Tiles have 5760 pairs.
extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) sort_onesweep_u32_u64(
    const u32* keys_in, const u64* rows_in, u32 first_row, u32 n, u32* keys_out, u64* rows_out, const u32* starts,
    u32* next_starts, u32 first_bit, u32 bits, i32* lookback, i32* next_tile) {
    onesweep(
        keys_in, rows_in, first_row, n, keys_out, rows_out, starts, next_starts, first_bit, bits, lookback, next_tile);
}

// Keys only: 16n bytes (u64) or 8n (u32), with the same tiles as pairs. Rows are neither read nor written.
extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) sort_onesweep_u64_keys_only(
    const u64* keys_in, const cub::NullType* rows_in, u32 first_row, u32 n, u64* keys_out, cub::NullType* rows_out,
    const u32* starts, u32* next_starts, u32 first_bit, u32 bits, i32* lookback, i32* next_tile) {
    onesweep(
        keys_in, rows_in, first_row, n, keys_out, rows_out, starts, next_starts, first_bit, bits, lookback, next_tile);
}

extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) sort_onesweep_u32_keys_only(
    const u32* keys_in, const cub::NullType* rows_in, u32 first_row, u32 n, u32* keys_out, cub::NullType* rows_out,
    const u32* starts, u32* next_starts, u32 first_bit, u32 bits, i32* lookback, i32* next_tile) {
    onesweep(
        keys_in, rows_in, first_row, n, keys_out, rows_out, starts, next_starts, first_bit, bits, lookback, next_tile);
}

constexpr u32 SEGMENTS_THREADS = 256;
constexpr u32 SEGMENTS_STEPS = 16;
constexpr u32 SEGMENTS_TILE = SEGMENTS_THREADS * SEGMENTS_STEPS;

// The number of ids among the first `step` steps of the merge, which is in from..=to. `ids` begins with id number
// `base`.
__device__ __forceinline__ u32 ids_consumed(const u32* ids, u32 base, u32 from, u32 to, u32 step) {
    while (from < to) {
        const u32 middle = from + (to - from) / 2;
        if (ids[middle - base] < step - 1 - middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

// segments[g] = the number of ascending ids below g, for g in 0..=groups: the beginning of group g, and at last the end
// of all groups. It merges the ids with 0..=groups, cut along the merge path (Green, McColl & Bader 2012), so that
// neither a group of many rows nor a long run of empty groups unbalances the blocks.
// Bound: 4n bytes read, 4 (groups + 1) written. Launch: blocks of 256, one for each 4096 of the n + groups + 1 steps.
extern "C" __global__ void __launch_bounds__(SEGMENTS_THREADS)
    sort_segments(const u32* ids, u32 n, u32 groups, u32* segments) {
    __shared__ u32 tile[SEGMENTS_TILE];
    __shared__ u32 ends[2];
    const u32 markers = groups + 1;
    const u32 first_step = blockIdx.x * SEGMENTS_TILE;
    const u32 steps = min(SEGMENTS_TILE, n + markers - first_step);
    if (threadIdx.x % 32 == 0 && threadIdx.x < 64) {
        const u32 step = first_step + (threadIdx.x == 0 ? 0 : steps);
        ends[threadIdx.x / 32] = ids_consumed(ids, 0, step > markers ? step - markers : 0, min(step, n), step);
    }
    __syncthreads();
    const u32 id_begin = ends[0];
    const u32 id_end = ends[1];
    const u32 marker_end = first_step + steps - id_end;
    for (u32 i = id_begin + threadIdx.x; i < id_end; i += SEGMENTS_THREADS) {
        tile[i - id_begin] = ids[i];
    }
    __syncthreads();

    const u32 skipped = min(threadIdx.x * SEGMENTS_STEPS, steps);
    const u32 step = first_step + skipped;
    const u32 fewest = max(id_begin, step > marker_end ? step - marker_end : 0);
    u32 id = ids_consumed(tile, id_begin, fewest, min(id_end, id_begin + skipped), step);
    u32 marker = step - id;
    const u32 mine = min(SEGMENTS_STEPS, steps - skipped);
    for (u32 i = 0; i < mine; ++i) {
        if (marker < marker_end && (id == id_end || tile[id - id_begin] >= marker)) {
            segments[marker++] = id;
        } else {
            ++id;
        }
    }
}
