// Binary search for the end of a prefix in which a condition holds.
#pragma once

#include "shared/tile.cuh"

// The first position of `from ..= to` where `holds` fails, or `to` if it fails at none before.
template <typename Holds>
__device__ __forceinline__ u32 partition_point(u32 from, u32 to, Holds holds) {
    while (from < to) {
        const u32 middle = from + (to - from) / 2;
        if (holds(middle)) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

// The same by a whole warp; all lanes get the result. A step tests 32 positions at once: 10^8 positions take 6
// dependent loads instead of 27.
template <typename Holds>
__device__ __forceinline__ u32 warp_partition_point(u32 from, u32 to, Holds holds) {
    const u32 lane = threadIdx.x % WARP;
    while (to - from > WARP) {
        const u32 step = (to - from) / (WARP + 1) + 1;
        const u32 at = from + (lane + 1) * step - 1;
        const u32 holding = __popc(__ballot_sync(ALL_LANES, at < to && holds(at)));
        to = min(to, from + (holding + 1) * step - 1);
        from += holding * step;
    }
    const u32 at = from + lane;
    return from + __popc(__ballot_sync(ALL_LANES, at < to && holds(at)));
}
