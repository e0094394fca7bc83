// From a bitmap to the ascending ids of its set bits: count by block, scan (elsewhere), write. A block processes 256
// words, so 2^31 rows have 2^18 counts to scan, and a position inside a block fits in 16 bits.
#pragma once

#include <cub/block/block_scan.cuh>

#include "shared/common.cuh"
#include "shared/tile.cuh"

constexpr u32 SELECT_WORDS = BLOCK;
constexpr u32 SELECT_ROWS = SELECT_WORDS * 32;

// The number of set bits in each 256 words. Bits past the end are 0. Bound: one word for 32 rows. Launch: blocks of
// 256; a warp computes one count, a block eight.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_select_count(const u32* __restrict__ bits, u32 words, u32* __restrict__ block_counts) {
    const u32 lane = threadIdx.x % WARP;
    const u32 block = blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    const u32 first = block * SELECT_WORDS + lane;
    u32 count = 0;
#pragma unroll
    for (u32 k = 0; k < SELECT_WORDS / WARP; k++) {
        const u32 w = first + k * WARP;
        const u32 word = bits[min(w, words - 1)];
        count += w < words ? __popc(word) : 0;
    }
    for (u32 half = WARP / 2; half > 0; half /= 2) {
        count += __shfl_down_sync(ALL_LANES, count, half);
    }
    if (lane == 0 && block * SELECT_WORDS < words) {
        block_counts[block] = count;
    }
}

// `out[…] = source(i)` for the set bits of this block's words. Their positions are compacted in shared memory first, so
// that the output is written in whole cache lines for any bitmap.
template <typename T, typename Source>
__device__ __forceinline__ void select_write(const u32* bits, u32 words, const u32* block_offsets, T* out,
                                             Source source) {
    using Scan = cub::BlockScan<u32, BLOCK>;
    __shared__ typename Scan::TempStorage scratch;
    __shared__ u16 packed[SELECT_ROWS];
    const u32 lane = threadIdx.x % WARP;
    const u32 first = blockIdx.x * SELECT_WORDS;
    const u32 word = first + threadIdx.x < words ? bits[first + threadIdx.x] : 0;
    u32 before, total;
    Scan(scratch).ExclusiveSum(__popc(word), before, total);

    // A warp compacts one word after another, so that its lanes write to neighbouring positions; empty words cost
    // nothing.
    const u32 warp_place = (threadIdx.x - lane) * 32 + lane;
    const u32 bits_below = (1u << lane) - 1;
    for (u32 rest = __ballot_sync(ALL_LANES, word != 0); rest != 0; rest &= rest - 1) {
        const u32 owner = __ffs(rest) - 1;
        const u32 shared_word = __shfl_sync(ALL_LANES, word, owner);
        const u32 start = __shfl_sync(ALL_LANES, before, owner);
        if ((shared_word >> lane & 1) != 0) {
            packed[start + __popc(shared_word & bits_below)] = (u16)(warp_place + owner * 32);
        }
    }
    __syncthreads();

    T* block_out = out + block_offsets[blockIdx.x];
    for (u32 i = threadIdx.x; i < total; i += BLOCK) {
        block_out[i] = source(first * 32 + packed[i]);
    }
}

// Row ids of the set bits. Bits past the end are 0. Bound: 4 bytes written a set bit, and one word read for 32 rows.
// Launch: one block of 256 for each 256 words; `block_offsets` is the exclusive scan of the counts.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_select_write(const u32* __restrict__ bits, u32 words, const u32* __restrict__ block_offsets,
                      u32* __restrict__ out) {
    select_write(bits, words, block_offsets, out, [](u32 i) { return i; });
}

// `values[i]` of the set bits `i`. As above, but with a value read and written for each set bit; only cache lines with
// a set bit are read.
#define SELECT_VALUES(bits_of_value, T)                                                                              \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        rows_select_write_values##bits_of_value(const u32* __restrict__ bits, u32 words,                             \
                                                const u32* __restrict__ block_offsets, const T* __restrict__ values, \
                                                T* __restrict__ out) {                                               \
        select_write(bits, words, block_offsets, out, [=](u32 i) { return values[i]; });                             \
    }

SELECT_VALUES(32, u32)
SELECT_VALUES(64, u64)
SELECT_VALUES(128, ulonglong2)
