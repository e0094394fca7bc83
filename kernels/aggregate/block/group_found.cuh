// Findings of blocks while they add rows by ids. Each block writes to one of many copies of these words, which are
// combined in the end: words that all blocks read would give their L2 slice a third more work than the others have.
#pragma once

#include "shared/tile.cuh"

// BEYOND is not 0 if an id has no group. Bit a of UNSURE: result a may be 0 for a group with rows. GREATEST is the
// greatest group with a row, and FROM_LAST the distance of the least such group from the last group.
constexpr u32 BEYOND = 0;
constexpr u32 UNSURE = 1;
constexpr u32 GREATEST = 2;
constexpr u32 FROM_LAST = 3;
// The words as a warp last read them.
struct Known {
    u32 beyond, unsure, greatest, from_last;
};
constexpr u32 COPIES = 64;
constexpr u32 COPY_WORDS = 32;

__device__ __forceinline__ u32* found_by_block(u32* found) {
    return found + blockIdx.x % COPIES * COPY_WORDS;
}

// Raises a word to the maximum over the lanes, if that is greater than the known value.
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

// Reports to all blocks that an id is beyond the groups; called by a warp.
__device__ __forceinline__ void found_beyond(u32* found) {
    for (u32 i = threadIdx.x % WARP; i < COPIES; i += WARP) {
        atomicOr(found + i * COPY_WORDS + BEYOND, 1u);
    }
}
