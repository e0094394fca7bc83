// Where two presorted sides are cut into tiles, and whether a sample of their keys is in order.
#pragma once

#include "semi/merge_tile.cuh"
#include "shared/search.cuh"

// The cuts that one block computes.
constexpr u32 CUTS = 64;

// Whether a build row is among the first `step` rows of the merge: it comes before all greater probe rows.
template <class Key>
__device__ __forceinline__ bool is_before(const Key* build, const Key* probe, u32 step, u32 row) {
    return build[row] < probe[step - 1 - row];
}

// Whether any of 64 keys at each of 4 positions descends, or the keys from one position to the next do. Each thread
// answers for its keys.
template <class Key>
__device__ __forceinline__ bool falls_here(const Key* keys, u32 rows) {
    constexpr u32 PARTS = 4;
    const u32 distance = rows > PARTS * CUTS ? (rows - CUTS) / (PARTS - 1) : CUTS;
    bool fell = false;
#pragma unroll
    for (u32 part = 0; part < PARTS; part++) {
        const u32 at = part * distance + threadIdx.x;
        const u32 before = threadIdx.x > 0 ? at - 1 : at - distance + CUTS - 1;
        if (at > 0 && at < rows) {
            fell |= keys[before] > keys[at];
        }
    }
    return fell;
}

template <class Key>
__device__ __forceinline__ void merge_look(const Key* build, u32 n, const Key* probe, u32 m, u32* status) {
    if (falls_here(build, n) || falls_here(probe, m)) {
        *status = NOT_ASCENDING;
    }
}

template <class Key>
__device__ __forceinline__ void merge_cuts(const Key* build, u32 n, const Key* probe, u32 m, u32 tiles, u32* cuts) {
    __shared__ u32 ends[2];
    const auto step_of = [&](u64 tile) { return u32(min(tile * TILE_ROWS<Key>, u64(n) + m)); };
    const u32 first = step_of(u64(blockIdx.x) * CUTS);
    const u32 last = step_of(u64(blockIdx.x + 1) * CUTS);
    {
        const u32 step = threadIdx.x < WARP ? first : last;
        const u32 cut = warp_partition_point(step > m ? step - m : 0, min(step, n),
                                             [&](u32 row) { return is_before(build, probe, step, row); });
        if (threadIdx.x % WARP == 0) {
            ends[threadIdx.x / WARP] = cut;
        }
    }
    __syncthreads();
    const u32 tile = blockIdx.x * CUTS + threadIdx.x;
    if (tile > tiles) {
        return;
    }
    const u32 step = step_of(tile);
    const auto holds = [&](u32 row) { return is_before(build, probe, step, row); };
    // The cut is between those of the block. Keys that do not ascend may have them out of order.
    const u32 least = min(ends[0], ends[1]);
    const u32 most = ends[1];
    const u32 probe_least = first - ends[0];
    const u32 probe_most = last - ends[1];
    u32 from = max(least, step > probe_most ? step - probe_most : 0);
    u32 to = min(most, step > probe_least ? step - probe_least : 0);
    if (from < to) {
        // The estimate assumes that both sides advance at the same rate; the search widens from there.
        const u32 guess = min(max(least + u32(u64(most - least) * threadIdx.x / CUTS), from), to - 1);
        u32 stride = 8;
        if (holds(guess)) {
            from = guess + 1;
            while (to - from > stride && holds(from + stride)) {
                from += stride + 1;
                stride *= 4;
            }
            to = to - from > stride ? from + stride : to;
        } else {
            to = guess;
            while (to - from > stride && !holds(to - stride)) {
                to -= stride;
                stride *= 4;
            }
            from = to - from > stride ? to - stride : from;
        }
    }
    cuts[tile] = min(partition_point(from, to, holds), n);
}

// The build rows from range[0] to range[1] have all keys from the first to the last of the probe side.
template <class Key>
__device__ __forceinline__ void merge_range(const Key* build, u32 n, const Key* probe, u32 m, u32* range) {
    const u32 warp = threadIdx.x / WARP;
    const Key end = probe[warp == 0 ? 0 : m - 1];
    range[warp] = warp_partition_point(0, n, [&](u32 row) { return warp == 0 ? build[row] < end : build[row] <= end; });
}
