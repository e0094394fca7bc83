// Where the rows of each digit begin.
#pragma once

#include "common.cuh"

constexpr u32 DIGITS = 256;

// Replaces 256 counts by their exclusive prefix sums; by one warp. Other blocks made the counts, so they are read past
// the first-level cache.
__device__ __forceinline__ void counts_to_starts(u32* counts) {
    constexpr u32 PER_LANE = DIGITS / 32;
    const u32 lane = threadIdx.x % 32;
    u32* mine = counts + lane * PER_LANE;
    u32 values[PER_LANE];
    u32 total = 0;
#pragma unroll
    for (u32 i = 0; i < PER_LANE; ++i) {
        values[i] = __ldcg(mine + i);
        total += values[i];
    }
    u32 end = total;
    for (u32 distance = 1; distance < 32; distance *= 2) {
        const u32 lower = __shfl_up_sync(~0u, end, distance);
        end += lane >= distance ? lower : 0;
    }
    u32 start = end - total;
#pragma unroll
    for (u32 i = 0; i < PER_LANE; ++i) {
        mine[i] = start;
        start += values[i];
    }
}
