// Cooperative binary search for the positions of a block.
//
// Two searches by whole warps, for the least and the greatest probe key, bracket the results of all 1024 positions. All
// keys of the bracket, or every n-th one, are then in shared memory, and each thread searches there. The dependent
// loads of a result are about 6 shared with its block, 1 for the bracket's keys, and log2 of the number of bracket keys
// for each pivot: none if both sides have about the same length.
#pragma once

#include "shared/search.cuh"

// Keys of the bracket in shared memory.
constexpr u32 PIVOTS = 2048;

// The extremes of the searches of several positions, over those with a range that is not empty.
struct Searches {
    u64 least, greatest;
    u32 least_from, greatest_from;
    u32 least_to, greatest_to;

    static __device__ __forceinline__ Searches none() { return {~0ull, 0, ~0u, 0, ~0u, 0}; }

    __device__ __forceinline__ void add(u64 word, u32 from, u32 to) {
        if (from < to) {
            least = min(least, word);
            greatest = max(greatest, word);
            least_from = min(least_from, from);
            greatest_from = max(greatest_from, from);
            least_to = min(least_to, to);
            greatest_to = max(greatest_to, to);
        }
    }

    // Combines the searches of each group of `lanes` lanes (a power of two); all lanes of the group get the result.
    __device__ __forceinline__ void join(u32 lanes) {
        for (u32 distance = lanes / 2; distance > 0; distance /= 2) {
            least = min(least, __shfl_xor_sync(ALL_LANES, least, distance));
            greatest = max(greatest, __shfl_xor_sync(ALL_LANES, greatest, distance));
            least_from = min(least_from, __shfl_xor_sync(ALL_LANES, least_from, distance));
            greatest_from = max(greatest_from, __shfl_xor_sync(ALL_LANES, greatest_from, distance));
            least_to = min(least_to, __shfl_xor_sync(ALL_LANES, least_to, distance));
            greatest_to = max(greatest_to, __shfl_xor_sync(ALL_LANES, greatest_to, distance));
        }
    }
};

// The keys in which a block searches: all results are in `first ..= end`, and every `apart`-th key from `first` on is a
// pivot. There is no bracket if the block does not search cooperatively.
struct Bracket {
    u32 together, first, end;
    u64 pivots[PIVOTS];

    __device__ __forceinline__ u32 apart() const { return max((end - first + PIVOTS - 1) / PIVOTS, 1u); }
    __device__ __forceinline__ u32 pivot_count() const { return (end - first + apart() - 1) / apart(); }
};

// Advances each `at` past the keys before its `end` that are less than its word (`through`: or equal). `width` is at
// least the distance between `at` and `end`. The loads of a thread's four searches are in flight together.
template <typename KeyAt>
__device__ __forceinline__ void advance(u32 (&at)[ITEMS], const u32 (&end)[ITEMS], const u64 (&words)[ITEMS], u32 width,
                                        bool through, KeyAt key_at) {
    if (width == 0) {
        return;
    }
    for (u32 half = 1u << (31 - __clz(width)); half > 0; half /= 2) {
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            if (at[k] + half <= end[k]) {
                const u64 key = key_at(at[k] + half - 1);
                if (key < words[k] || (through && key == words[k])) {
                    at[k] += half;
                }
            }
        }
    }
}

// For each position the number of build keys below its word (`through`: or equal to it), within its range `from ..=
// to`.
__device__ __forceinline__ void search(const Bracket& bracket, const u64* build_keys, const u64 (&words)[ITEMS],
                                       const u32 (&from)[ITEMS], const u32 (&to)[ITEMS], bool through,
                                       u32 (&answers)[ITEMS]) {
    u32 end[ITEMS];
    u32 width = 0;
    if (!bracket.together) {
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            answers[k] = from[k];
            end[k] = to[k];
            width = max(width, to[k] - from[k]);
        }
    } else {
        const u32 apart = bracket.apart();
        const u32 pivots = bracket.pivot_count();
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            answers[k] = 0;
            end[k] = pivots;
        }
        advance(answers, end, words, pivots, through, [&](u32 i) { return bracket.pivots[i]; });
        // After the last pivot that is passed, and before the next one.
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            const u32 passed = answers[k];
            answers[k] = bracket.first + (passed == 0 ? 0 : (passed - 1) * apart + 1);
            end[k] = min(bracket.first + passed * apart, bracket.end);
        }
        width = apart - 1;
    }
    advance(answers, end, words, width, through, [&](u32 i) { return build_keys[i]; });
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        answers[k] = min(max(answers[k], from[k]), to[k]);
    }
}
