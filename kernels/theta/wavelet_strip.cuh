// How a warp orders a strip of ranks by their digits.
//
// A strip is 512 consecutive ranks, 16 steps of 32. Two ballots of a step are the bit planes of its digits, which lane
// `k` keeps for step `k`. All counts come from these planes, without comparisons of ranks and without atomics.
#pragma once

#include "shared/tile.cuh"

constexpr u32 DIGIT_BITS = 2;
constexpr u32 STEPS = 16;
constexpr u32 STRIP = WARP * STEPS;
// Positions of a block of the tree.
constexpr u32 PLANE = 64;

// The number of the `most` items from `first` on that are below `n`.
__device__ __forceinline__ u32 left_of(u32 n, u32 first, u32 most) { return first < n ? min(n - first, most) : 0; }

// Counts of the four digits, 16 bits each, for at most 8192 ranks.
typedef u64 Counts;

__device__ __forceinline__ u32 count_of(Counts counts, u32 digit) { return u32(counts >> (16 * digit)) & 0xFFFF; }

// The number of digits below 1, 2 and 3.
__device__ __forceinline__ uint3 below_edges(Counts counts) {
    const u32 one = count_of(counts, 0);
    const u32 two = one + count_of(counts, 1);
    return make_uint3(one, two, two + count_of(counts, 2));
}

struct Strip {
    // Lane `i` holds ranks `i`, `32 + i`, ... of the strip.
    u32 ranks[STEPS];
    // The bit planes of the digits of step `lane`.
    u32 low, high;
    // `before`: the digits of the steps before step `lane`. `total`: the digits of all steps of the strip.
    Counts before, total;

    // Counts the digits above `shift` of the strip's first `count` ranks.
    __device__ __forceinline__ void read_digits(u32 shift, u32 count) {
        const u32 lane = threadIdx.x % WARP;
        low = 0;
        high = 0;
#pragma unroll
        for (u32 k = 0; k < STEPS; k++) {
            const bool mine = k * WARP + lane < count;
            const u32 low_of_step = __ballot_sync(ALL_LANES, mine && (ranks[k] >> shift & 1) != 0);
            const u32 high_of_step = __ballot_sync(ALL_LANES, mine && (ranks[k] >> shift & 2) != 0);
            low = lane == k ? low_of_step : low;
            high = lane == k ? high_of_step : high;
        }
        const u32 of_step = lane < STEPS && lane * WARP < count ? min(count - lane * WARP, WARP) : 0;
        const Counts ones = __popc(low & ~high);
        const Counts twos = __popc(~low & high);
        const Counts threes = __popc(low & high);
        const Counts mine = (of_step - ones - twos - threes) | ones << 16 | twos << 32 | threes << 48;
        Counts through = mine;
        for (u32 distance = 1; distance < STEPS; distance *= 2) {
            const Counts earlier = __shfl_up_sync(ALL_LANES, through, distance);
            through += lane >= distance ? earlier : 0;
        }
        before = through - mine;
        total = __shfl_sync(ALL_LANES, through, STEPS - 1);
    }

    // Calls `place(k, digit, number)` for each of the first `count` ranks: its step, its digit, and the number of
    // earlier ranks of the strip with the same digit.
    template <typename Place>
    __device__ __forceinline__ void each(u32 count, Place place) const {
        const u32 lane = threadIdx.x % WARP;
        const u32 lower_lanes = (1u << lane) - 1;
#pragma unroll
        for (u32 k = 0; k < STEPS; k++) {
            const u32 low_of_step = __shfl_sync(ALL_LANES, low, k);
            const u32 high_of_step = __shfl_sync(ALL_LANES, high, k);
            const Counts before_step = __shfl_sync(ALL_LANES, before, k);
            const bool low_bit = (low_of_step >> lane & 1) != 0;
            const bool high_bit = (high_of_step >> lane & 1) != 0;
            const u32 same = (low_bit ? low_of_step : ~low_of_step) & (high_bit ? high_of_step : ~high_of_step);
            const u32 digit = u32(high_bit) << 1 | u32(low_bit);
            if (k * WARP + lane < count) {
                // Bits past the strip's end come after this one.
                place(k, digit, count_of(before_step, digit) + __popc(same & lower_lanes));
            }
        }
    }

    // Writes the blocks of the strip, which begins at position `first` of `n`. `before_strip` is the number of digits
    // of the node before the strip that are below 1, 2 and 3. A block is two vectors: those counts and a word of
    // padding, and the low and the high plane.
    __device__ __forceinline__ void write_blocks(uint4* __restrict__ blocks, u32 first, u32 n, uint3 before_strip) const {
        const u32 lane = threadIdx.x % WARP;
        // An odd lane has the planes of its step and of the one before.
        const u32 low_before = __shfl_up_sync(ALL_LANES, low, 1);
        const u32 high_before = __shfl_up_sync(ALL_LANES, high, 1);
        const uint3 inside = below_edges(before);
        const uint4 counts = make_uint4(before_strip.x + inside.x, before_strip.y + inside.y, before_strip.z + inside.z, 0);
        const uint4 planes = make_uint4(low_before, low, high_before, high);
        const u32 position = first + lane / 2 * PLANE;
        if (lane < STEPS && position < n) {
            blocks[position / PLANE * 2 + lane % 2] = lane % 2 == 0 ? counts : planes;
        }
    }
};
