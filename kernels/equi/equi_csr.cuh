// Build rows grouped by key (CSR), and ranges of them: by groups (table slots or array places), or by runs of equal
// keys in sorted order.
#pragma once

#include "equi/equi_emit.cuh"

// Adds 1 to counters[group] for each lane of the warp with a group, and returns the value before. Lanes of one group
// share an atomic, so that a very frequent key does not serialise at one address.
__device__ __forceinline__ u32 count_together(u32* counters, u32 group) {
    const u32 lane = threadIdx.x % WARP;
    const u32 peers = __match_any_sync(ALL_LANES, group);
    const u32 leader = __ffs(peers) - 1;
    u32 before = 0;
    if (lane == leader && group != NONE) {
        before = atomicAdd(&counters[group], __popc(peers));
    }
    return __shfl_sync(ALL_LANES, before, leader) + __popc(peers & ((1u << lane) - 1));
}

// counts[g] += the number of rows in group g; NONE is no group. Bound: 4 bytes and an atomic at random a row, but one
// atomic for the rows of a group among 32. Launch: blocks of 256, a block for each 1024 rows; counts are zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK) equi_csr_count(const u32* __restrict__ groups, u32 n, u32* counts) {
    const u32 begin = warp_first(blockIdx.x) + threadIdx.x % WARP;
    u32 group[ITEMS];
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        group[k] = begin + k * WARP < n ? groups[begin + k * WARP] : NONE;
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        count_together(counts, group[k]);
    }
}

// rows[segments[g] .. segments[g + 1]] = the rows of group g, in no order. `segments` are the exclusive prefix sums of
// the counts; `taken[g]` is zeroed first and ends as the count. Bound: 4 bytes, an atomic, a read and a write at random
// a row. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    equi_csr_place(const u32* __restrict__ groups, u32 n, const u32* __restrict__ segments, u32* taken, u32* __restrict__ rows) {
    const u32 begin = warp_first(blockIdx.x) + threadIdx.x % WARP;
    u32 group[ITEMS], start[ITEMS];
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        group[k] = begin + k * WARP < n ? groups[begin + k * WARP] : NONE;
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        start[k] = group[k] == NONE ? 0 : segments[group[k]];
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 before = count_together(taken, group[k]);
        if (group[k] != NONE) {
            rows[start[k] + before] = begin + k * WARP;
        }
    }
}

// The range of a probe position is the segment of its group, or empty (0, 0) without a group; counts[i] is its length.
// expand_* takes these. Bound: 16 bytes a position, and two neighbouring words of `segments` at random. Launch: blocks
// of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    equi_csr_ranges(const u32* __restrict__ groups, u32 n, const u32* __restrict__ segments, u32* __restrict__ lo,
                    u32* __restrict__ hi, u32* __restrict__ counts) {
    each_row(
        n,
        [=](u32 i) {
            const u32 group = groups[i];
            return group == NONE ? make_uint2(0, 0) : make_uint2(segments[group], segments[group + 1]);
        },
        [=](u32 i, uint2 range) {
            const bool some = range.x < range.y;
            lo[i] = some ? range.x : 0;
            hi[i] = some ? range.y : 0;
            counts[i] = range.y - range.x;
        });
}

// Which positions of a sorted side begin a run of equal keys; bits past the end are 0. Bound: a key read a row. Launch:
// blocks of 256, a block for each 1024 rows. rows_select_* then gives the beginnings of the runs and their keys.
#define HEADS(name, Key)                                                                                            \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                             \
        equi_heads_##name(const Key* __restrict__ sorted, u32* __restrict__ heads, u32 n) {                         \
        each_word(n, [=](u32 i) { return i == 0 || sorted[i] != sorted[i - 1]; },                                   \
                  [=](u32 w, u32 word) { heads[w] = word; });                                                       \
    }

HEADS(u32, u32)
HEADS(u64, u64)
