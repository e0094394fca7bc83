// What blocks find while they add rows by ids, each in one of many copies of these words, which are put together in the end: the part of the
// cache that has words which all blocks look at would have a third more to do than others.
#pragma once

#include "shared/tile.cuh"

// Word BEYOND is not 0 where an id is of no group; bit a of UNSURE: result a may be 0 where it has rows; GREATEST is the greatest group of
// some row, and FROM_LAST how far the least one is from the last of all.
constexpr u32 BEYOND = 0;
constexpr u32 UNSURE = 1;
constexpr u32 GREATEST = 2;
constexpr u32 FROM_LAST = 3;
struct Known {
    u32 beyond, unsure, greatest, from_last;
};
constexpr u32 COPIES = 64;
constexpr u32 COPY_WORDS = 32;

__device__ __forceinline__ u32* found_by_block(u32* found) {
    return found + blockIdx.x % COPIES * COPY_WORDS;
}

// Raises a word to the greatest that some lane has, if that is greater than what was known.
__device__ __forceinline__ void raise(u32* at, u32 known, u32 word) {
    if (!__any_sync(ALL_LANES, word > known)) {
        return;
    }
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        word = max(word, __shfl_xor_sync(ALL_LANES, word, distance));
    }
    if (threadIdx.x % WARP == 0) {
        atomicMax(at, word);
    }
}

// Lets all blocks know that an id is beyond the groups; by a warp.
__device__ __forceinline__ void found_beyond(u32* found) {
    for (u32 i = threadIdx.x % WARP; i < COPIES; i += WARP) {
        atomicOr(found + i * COPY_WORDS + BEYOND, 1u);
    }
}
