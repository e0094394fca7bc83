// Descent of prefixes of the tree's nodes, and the low bits below the last level.
#pragma once

#include "theta/wavelet_strip.cuh"

// The first `end` positions of a node, and the number of ranks below the bound that the prefix has outside of the node.
struct Prefix {
    u32 end, count;

    // Counts a prefix that is a whole node: its ranks are consecutive.
    __device__ __forceinline__ void take_whole(u32 start, u32 length, u32 bound) {
        if (end == length) {
            count += bound - start;
            end = 0;
        }
    }
};

// A block of a level; all zero for the empty prefix, which then stays empty.
struct Planes {
    uint4 edges, planes;

    __device__ __forceinline__ static Planes at(const uint4* __restrict__ level, u32 start, u32 end) {
        const uint4* const block = level + (start + end) / PLANE * 2;
        const uint4 none = make_uint4(0, 0, 0, 0);
        return {end == 0 ? none : __ldg(block), end == 0 ? none : __ldg(block + 1)};
    }

    // Counts the smaller digits of the prefix, and descends to those that are equal.
    __device__ __forceinline__ void step(u32 digit, Prefix& prefix) const {
        const u32 inside = prefix.end % PLANE;
        const u64 wanted = (u64(1) << inside) - 1;
        const u64 low = u64(planes.y) << 32 | planes.x;
        const u64 high = u64(planes.w) << 32 | planes.z;
        const u64 less = digit == 0 ? 0 : digit == 1 ? ~(low | high) : digit == 2 ? ~high : ~(low & high);
        const u64 same = (digit & 1 ? low : ~low) & (digit & 2 ? high : ~high);
        const u32 from = digit == 0 ? 0 : digit == 1 ? edges.x : digit == 2 ? edges.y : edges.z;
        const u32 to = digit == 0 ? edges.x : digit == 1 ? edges.y : digit == 2 ? edges.z : prefix.end - inside;
        prefix.count += from + __popcll(less & wanted);
        prefix.end = to - from + __popcll(same & wanted);
    }
};

// Adds the number of low bits below `bound` among a lane's `end` bytes from `low[start]` on. Eight lanes read the bytes
// of one lane together: a node is one or two cache lines, which a single lane would read in as many accesses.
__device__ __forceinline__ void count_low(const u8* __restrict__ low, u32 start, u32 bound, Prefix& prefix) {
    constexpr u32 LANES = 8;
    constexpr u32 BYTES = 16;
    const u32 lane = threadIdx.x % WARP;
    const u32 asked = __ballot_sync(ALL_LANES, prefix.end > 0);
    for (u32 first = 0; first < WARP; first += WARP / LANES) {
        if ((asked >> first & 0xF) == 0) {
            continue;
        }
        const u32 of = first + lane / LANES;
        const u32 end = __shfl_sync(ALL_LANES, prefix.end, of);
        const u32 begin = __shfl_sync(ALL_LANES, start, of);
        const u32 bounds = __shfl_sync(ALL_LANES, bound, of) * 0x01010101u;
        u32 bits = 0;
        for (u32 at = lane % LANES * BYTES; at < end; at += LANES * BYTES) {
            const uint4 bytes = __ldg(reinterpret_cast<const uint4*>(low + begin + at));
            const u32 words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
            for (u32 w = 0; w < 4; w++) {
                const u32 left = left_of(end, at + 4 * w, 4);
                const u32 wanted = left == 4 ? ~0u : (1u << (8 * left)) - 1;
                bits += __popc(__vcmpltu4(words[w], bounds) & wanted);
            }
        }
        for (u32 distance = LANES / 2; distance > 0; distance /= 2) {
            bits += __shfl_xor_sync(ALL_LANES, bits, distance);
        }
        const u32 mine = __shfl_sync(ALL_LANES, bits, lane % (WARP / LANES) * LANES);
        prefix.count += lane / (WARP / LANES) == first / (WARP / LANES) ? mine / 8 : 0;
    }
}
