// Brute force over signatures: a block holds those of a strip of probe sets in registers and streams those of the build
// side past them through shared memory. A pair costs a logic instruction for each 32 bits, and half of one to combine
// results; pairs that are not rejected are queued for verification.
#pragma once

#include "sets/set_verify.cuh"

// The condition on a pair of signatures.
enum class Reject {
    OUTSIDE,    // every bit of the probe set is set in the build set
    UNCOVERED,  // every bit of the build set is set in the probe set
    DISTANT     // few enough bits differ ([B] 4.1, bitmap filter)
};

// The shape of tiles for signatures of WORDS 32-bit words: as many probe sets a thread as its registers hold.
template <u32 WORDS>
struct TileShape {
    static constexpr u32 ROWS = WORDS <= 4 ? 8 : WORDS == 8 ? 4 : 2;
    // Build sets tested between two checks of the results.
    static constexpr u32 AT_ONCE = WORDS == 2 ? 4 : WORDS == 4 ? 2 : 1;
    static constexpr u32 STRIP = ROWS * BLOCK;
    static constexpr u32 COLUMNS = 2048 / WORDS;
};

// Words that are read in one access.
template <u32 COUNT>
struct alignas(COUNT % 4 == 0 ? 16 : 8) Words {
    u32 of[COUNT];
};

// A full adder for each bit position: `sum` has weight one, `carry` weight two.
struct Added {
    u32 sum, carry;

    __device__ __forceinline__ Added(u32 a, u32 b, u32 c) : sum(a ^ b ^ c), carry((a & b) | (a & c) | (b & c)) {}
};

// The number of bits set in COUNT words (2, 4, or a multiple of 8). Bit counts have a quarter of the rate of logic
// instructions, so words are added first: 4 words take 3 counts, 8 take 4.
template <u32 COUNT>
__device__ __forceinline__ u32 count_bits(const u32* words) {
    if (COUNT == 2) {
        return __popc(words[0]) + __popc(words[1]);
    }
    if (COUNT == 4) {
        const Added three(words[0], words[1], words[2]);
        return __popc(three.sum) + 2 * __popc(three.carry) + __popc(words[3]);
    }
    u32 count = 0;
#pragma unroll
    for (u32 w = 0; w < COUNT; w += 8) {
        const Added three(words[w], words[w + 1], words[w + 2]);
        const Added five(three.sum, words[w + 3], words[w + 4]);
        const Added seven(five.sum, words[w + 5], words[w + 6]);
        const Added twos(three.carry, five.carry, seven.carry);
        count += __popc(seven.sum) + 2 * __popc(twos.sum) + 4 * __popc(twos.carry) + __popc(words[w + 7]);
    }
    return count;
}

template <Reject REJECT, u32 WORDS>
__device__ __forceinline__ bool may_match(const u32 (&row)[WORDS], const u32* column, i32 most) {
    if (REJECT == Reject::DISTANT) {
        u32 different[WORDS];
#pragma unroll
        for (u32 w = 0; w < WORDS; w++) {
            different[w] = row[w] ^ column[w];
        }
        return i32(count_bits<WORDS>(different)) <= most;
    }
    u32 missing = 0;
#pragma unroll
    for (u32 w = 0; w < WORDS; w++) {
        missing |= REJECT == Reject::OUTSIDE ? row[w] & ~column[w] : column[w] & ~row[w];
    }
    return missing == 0;
}

// The minimum of one set of values and the maximum of the other over the block; all threads call it.
__device__ __forceinline__ uint2 block_extremes(u32 least, u32 greatest) {
    __shared__ u32 extremes[2];
    if (threadIdx.x == 0) {
        extremes[0] = NONE;
        extremes[1] = 0;
    }
    __syncthreads();
    atomicMin(&extremes[0], least);
    atomicMax(&extremes[1], greatest);
    __syncthreads();
    return {extremes[0], extremes[1]};
}

// The maximum number of differing bits of a match: an overlap is at most half of the sum of the lengths minus the
// differing bits. `least` and `most` are the extreme sizes of the tile; `least` allows the most spare elements, as the
// overlap needed grows with the size.
__device__ __forceinline__ i32 bits_apart(const Measure& measure, u32 size, u32 length, u32 least, u32 most) {
    const i64 apart = i64(length) + most - 2 * i64(measure.need(size, least));
    return i32(max(min(apart, i64(1) << 20), i64(-1)));
}

// Tests the probe sets of strip `blockIdx.x`, from set `first` on, with the build sets of their windows `lo .. hi`. The
// union of the strip's windows is cut into gridDim.y slices.
template <Reject REJECT, u32 WORDS>
__device__ __forceinline__ void test_signatures(const Join& join, const u32* __restrict__ probe_signatures,
                                                const u32* __restrict__ build_signatures, const u32* __restrict__ lo,
                                                const u32* __restrict__ hi) {
    using Shape = TileShape<WORDS>;
    using Column = Words<WORDS>;
    using Read = Words<WORDS * Shape::AT_ONCE>;
    constexpr u32 ROWS = Shape::ROWS;
    __shared__ alignas(16) u32 tile[Shape::COLUMNS * WORDS];
    __shared__ Candidate waiting[BLOCK / WARP][Queue::SLOTS];
    Queue queue = {waiting[threadIdx.x / WARP], 0, 0};

    const Sets& probe = join.probe;
    const u32 first_row = probe.first + blockIdx.x * Shape::STRIP + threadIdx.x;
    u32 rows[ROWS][WORDS];
    u32 from = NONE, to = 0;
#pragma unroll
    for (u32 i = 0; i < ROWS; i++) {
        const u32 r = min(first_row + i * BLOCK, probe.n - 1);
        const Column mine = reinterpret_cast<const Column*>(probe_signatures)[r];
#pragma unroll
        for (u32 w = 0; w < WORDS; w++) {
            rows[i][w] = mine.of[w];
        }
        if (lo[r] < hi[r]) {
            from = min(from, lo[r]);
            to = max(to, hi[r]);
        }
    }
    const uint2 window = block_extremes(from, to);
    if (window.x >= window.y) {
        return;
    }
    const u32 tiles = (window.y - window.x + Shape::COLUMNS - 1) / Shape::COLUMNS;
    const u32 share = (tiles + gridDim.y - 1) / gridDim.y;
    const u32 end_tile = min((blockIdx.y + 1) * share, tiles);
    i32 apart[ROWS] = {};
    uint2 sizes = {NONE, NONE};
    for (u32 t = blockIdx.y * share; t < end_tile; t++) {
        const u32 first = window.x + t * Shape::COLUMNS;
        const u32 count = min(Shape::COLUMNS, window.y - first);
        const u32* const source = build_signatures + u64(first) * WORDS;
        for (u32 i = threadIdx.x; i < Shape::COLUMNS * WORDS; i += BLOCK) {
            tile[i] = i < count * WORDS ? source[i] : 0;
        }
        if (REJECT == Reject::DISTANT) {
            u32 least = join.build.sizes[first];
            u32 most = join.build.sizes[first + count - 1];
            if (join.grouped != 0) {
                // Sizes begin again with each group; empty sets are in no window.
                least = NONE;
                for (u32 i = threadIdx.x; i < count; i += BLOCK) {
                    const u32 size = join.build.sizes[first + i];
                    least = min(least, max(size, 1u));
                    most = max(most, size);
                }
                // All threads have read the extremes of the previous tile, or of the window above.
                __syncthreads();
                const uint2 extremes = block_extremes(least, most);
                least = extremes.x;
                most = extremes.y;
            }
            if (least != sizes.x || most != sizes.y) {
                sizes = {least, most};
#pragma unroll 1
                for (u32 i = 0; i < ROWS; i++) {
                    const u32 r = min(first_row + i * BLOCK, probe.n - 1);
                    const i32 of_row = bits_apart(join.measure, probe.sizes[r], probe.length(r), least, most);
#pragma unroll
                    for (u32 k = 0; k < ROWS; k++) {
                        apart[k] = k == i ? of_row : apart[k];
                    }
                }
            }
        }
        __syncthreads();
#pragma unroll 1
        for (u32 at = 0; at < count; at += Shape::AT_ONCE) {
            const Read columns = *reinterpret_cast<const Read*>(&tile[at * WORDS]);
            bool any = false;
#pragma unroll
            for (u32 k = 0; k < Shape::AT_ONCE; k++) {
#pragma unroll
                for (u32 i = 0; i < ROWS; i++) {
                    any |= may_match<REJECT, WORDS>(rows[i], columns.of + k * WORDS, apart[i]);
                }
            }
            if (!__any_sync(ALL_LANES, any)) {
                continue;
            }
            // Read and tested again: otherwise the compiler would keep every result of the loop above for this rare
            // case.
            const volatile u32* const words = &tile[at * WORDS];
            Read again;
#pragma unroll
            for (u32 w = 0; w < WORDS * Shape::AT_ONCE; w++) {
                again.of[w] = words[w];
            }
            u32 left = 0;
#pragma unroll
            for (u32 k = 0; k < Shape::AT_ONCE; k++) {
#pragma unroll
                for (u32 i = 0; i < ROWS; i++) {
                    left |= u32(may_match<REJECT, WORDS>(rows[i], again.of + k * WORDS, apart[i])) << (k * ROWS + i);
                }
            }
#pragma unroll 1
            for (; __any_sync(ALL_LANES, left != 0); left &= left - 1) {
                const u32 bit = left == 0 ? 0 : __ffs(left) - 1;
                const u32 r = first_row + bit % ROWS * BLOCK;
                const u32 s = first + at + bit / ROWS;
                const bool mine = left != 0 && r < probe.n && at + bit / ROWS < count && lo[r] <= s && s < hi[r];
                queue.push(join, mine, {r, s, NONE});
            }
        }
        __syncthreads();
    }
    queue.finish(join);
}
