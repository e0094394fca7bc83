// Sort-merge join ([W] 3.1.1): both sides sorted by key; the range of each probe position by one walk over both sides.
#pragma once

#include "shared/search.cuh"

constexpr u32 MERGE_STEPS = 4096;

// A block's part of the merge of both sides, cut along the merge path (Green, McColl & Bader 2012): all blocks have the
// same number of steps, whatever the keys. `UPPER` orders build keys before equal probe keys, so that the build keys
// before a probe position are those that are not greater; otherwise those that are less.
template <bool UPPER, class Key>
__device__ __forceinline__ void merge_bound(const Key* build, u32 n, const Key* probe, u32 m, u32* out) {
    __shared__ Key tile[MERGE_STEPS];
    __shared__ u32 ends[2];
    const auto precedes = [](Key of_build, Key of_probe) { return UPPER ? of_build <= of_probe : of_build < of_probe; };
    const u32 first_step = blockIdx.x * MERGE_STEPS;
    const u32 steps = min(MERGE_STEPS, n + m - first_step);
    const u32 warp = threadIdx.x / WARP;
    if (warp < 2) {
        const u32 step = first_step + (warp == 0 ? 0 : steps);
        const u32 consumed = warp_partition_point(step > m ? step - m : 0, min(step, n),
                                                  [&](u32 b) { return precedes(build[b], probe[step - 1 - b]); });
        if (threadIdx.x % WARP == 0) {
            ends[warp] = consumed;
        }
    }
    __syncthreads();
    const u32 begin = ends[0];
    const u32 rows = ends[1] - begin;
    for (u32 b = threadIdx.x; b < rows; b += BLOCK) {
        tile[b] = build[begin + b];
    }
    __syncthreads();
    for (u32 p = first_step - begin + threadIdx.x; p < first_step + steps - ends[1]; p += BLOCK) {
        const Key key = probe[p];
        out[p] = begin + partition_point(0, rows, [&](u32 b) { return precedes(tile[b], key); });
    }
}

// out[p] = the number of build keys below probe key p (equi_merge_lower_*), or not above it (equi_merge_upper_*): the
// ends of its range. Both sides ascend in the same order, which may be any, such as that of mixed keys.
// Bound: a key of both sides read and 4 bytes written a probe row. Launch: blocks of 256, one for each 4096 of the n +
// m steps; n + m is below 2^32.
#define MERGE(name, bound, UPPER, Key)                                                                              \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                             \
        equi_merge_##bound##_##name(const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m,     \
                                    u32* __restrict__ out) {                                                        \
        merge_bound<UPPER>(build, n, probe, m, out);                                                                \
    }

MERGE(u32, lower, false, u32)
MERGE(u64, lower, false, u64)
MERGE(u32, upper, true, u32)
MERGE(u64, upper, true, u64)
