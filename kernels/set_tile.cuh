// Tiles of 128 searching sets and 128 sorted ones, of which each thread has the overlaps of 8 x 8 pairs.
#pragma once

#include "set_verify.cuh"

constexpr u32 SIDE = 128;
constexpr u32 EACH = 8;

// Whether a tile has pairs in windows lo .. hi at all. All threads of the block call.
__device__ __forceinline__ bool has_window(const Join& join, u32 first_r, u32 first_s, const u32* __restrict__ lo,
                                           const u32* __restrict__ hi) {
    const u32 r = first_r + threadIdx.x;
    bool inside = false;
    if (threadIdx.x < SIDE && r < join.searching.n) {
        inside = max(lo[r], first_s) < min(hi[r], first_s + SIDE);
    }
    return __syncthreads_or(inside) != 0;
}

// `body(first_s)` for the sorted sets' tiles that slice `blockIdx.y` has, and that have pairs in windows with the searching
// sets from `first_r` on.
template <typename Body>
__device__ __forceinline__ void each_sorted_tile(const Join& join, u32 first_r, const u32* __restrict__ lo,
                                                 const u32* __restrict__ hi, Body body) {
    const u32 tiles = (join.sorted.n + SIDE - 1) / SIDE;
    for (u32 t = blockIdx.y; t < tiles; t += gridDim.y) {
        if (has_window(join, first_r, t * SIDE, lo, hi)) {
            body(t * SIDE);
        }
    }
}

// Hands out those of a thread's pairs whose overlap is enough: pair (i, j) is of sets row(i) and column(j), which may lie past
// the ends. All threads of the block call.
template <typename Row, typename Column, typename Overlap>
__device__ __forceinline__ void take_tile(const Join& join, const u32* __restrict__ lo, const u32* __restrict__ hi, Row row,
                                          Column column, Overlap overlap) {
    u32 b[EACH];
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
        b[j] = join.sorted.sizes[min(column(j), join.sorted.n - 1)];
    }
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 r = row(i);
        const u32 known = min(r, join.searching.n - 1);
        const u32 a = join.searching.sizes[known];
        const u32 from = lo[known];
        const u32 to = r < join.searching.n ? hi[known] : 0;
        u32 left = 0;
#pragma unroll
        for (u32 j = 0; j < EACH; j++) {
            const u32 s = column(j);
            left |= u32(from <= s && s < to && join.measure.passes(overlap(i, j), a, b[j])) << j;
        }
#pragma unroll 1
        for (; __any_sync(ALL_LANES, left != 0); left &= left - 1) {
            const u32 j = left == 0 ? 0 : __ffs(left) - 1;
            join.matches.take(left != 0, r, column(j));
        }
    }
}
