// Digit histograms for all passes of a radix sort or partition, in one read of the keys.
#pragma once

#include "shared/common.cuh"

constexpr u32 DIGITS = 256;

constexpr u32 HISTOGRAM_THREADS = 256;
constexpr u32 HISTOGRAM_ITEMS = 8;
constexpr u32 HISTOGRAM_TILE = HISTOGRAM_THREADS * HISTOGRAM_ITEMS;

// Replaces 256 counts by their exclusive prefix sums, with one warp. Other blocks wrote the counts, so the loads bypass
// L1.
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

// Counts the digits of `of(key)` of all keys. The block that finishes last turns counts into starts. Launch and
// zeroing: see sort_histogram_*.
template <class Key, class Of>
__device__ __forceinline__ void histogram(
    const Key* keys, u32 n, u32 passes, u64 first_bits, u64 bit_counts, u32* starts, u32* blocks_done, Of of) {
    __shared__ u32 counts[sizeof(Key) * DIGITS];
    __shared__ bool last_block;
    for (u32 i = threadIdx.x; i < passes * DIGITS; i += HISTOGRAM_THREADS) {
        counts[i] = 0;
    }
    __syncthreads();

    for (u32 base = blockIdx.x * HISTOGRAM_TILE; base < n; base += gridDim.x * HISTOGRAM_TILE) {
        Key tile[HISTOGRAM_ITEMS];
        const u32 left = n - base;
#pragma unroll
        for (u32 i = 0; i < HISTOGRAM_ITEMS; ++i) {
            const u32 at = i * HISTOGRAM_THREADS + threadIdx.x;
            tile[i] = of(at < left ? keys[base + at] : Key(0));
        }
        for (u32 pass = 0; pass < passes; ++pass) {
            const u32 first_bit = u32(first_bits >> (8 * pass)) & 0xFF;
            const u32 mask = (1u << (u32(bit_counts >> (8 * pass)) & 0xFF)) - 1;
#pragma unroll
            for (u32 i = 0; i < HISTOGRAM_ITEMS; ++i) {
                if (i * HISTOGRAM_THREADS + threadIdx.x < left) {
                    atomicAdd(&counts[pass * DIGITS + (u32(tile[i] >> first_bit) & mask)], 1);
                }
            }
        }
    }
    __syncthreads();

    for (u32 i = threadIdx.x; i < passes * DIGITS; i += HISTOGRAM_THREADS) {
        if (counts[i] != 0) {
            atomicAdd(&starts[i], counts[i]);
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last_block = atomicAdd(blocks_done, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    // A warp for each pass: there are 8 warps, and at most 8 passes.
    if (last_block && threadIdx.x / 32 < passes) {
        counts_to_starts(starts + threadIdx.x / 32 * DIGITS);
    }
}
