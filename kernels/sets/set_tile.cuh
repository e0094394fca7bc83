// Tiles of 128 probe sets and 128 build sets; each thread has the overlaps of 8 x 8 pairs.
#pragma once

#include "sets/set_verify.cuh"

constexpr u32 SIDE = 128;
constexpr u32 EACH = 8;

// A tile: the beginning of its sets, and the least overlap that each probe set needs with any of the build sets (NONE:
// it has no window here). Sizes ascend within a window, and needs do not fall as sizes grow.
struct Tile {
    u32 first_r, first_s;
    const u32* needs;
};

// Calls `body(tile)` for the tiles of build sets in slice `blockIdx.y` that have pairs in windows lo .. hi with the
// block's probe sets. All threads of the block call it.
template <typename Body>
__device__ __forceinline__ void each_build_tile(const Join& join, const u32* __restrict__ lo, const u32* __restrict__ hi,
                                                Body body) {
    __shared__ u32 needs[SIDE];
    const u32 first_r = join.probe.first + blockIdx.x * SIDE;
    const u32 r = first_r + threadIdx.x;
    const bool mine = threadIdx.x < SIDE && r < join.probe.n;
    const u32 from = mine ? lo[r] : 0, to = mine ? hi[r] : 0;
    const u32 size = mine ? join.probe.sizes[r] : 0;
    const u32 tiles = (join.build.n + SIDE - 1) / SIDE;
    for (u32 t = blockIdx.y; t < tiles; t += gridDim.y) {
        const u32 first_s = t * SIDE;
        const bool inside = max(from, first_s) < min(to, first_s + SIDE);
        __syncthreads();
        if (threadIdx.x < SIDE) {
            needs[threadIdx.x] = inside ? join.measure.need(size, join.build.sizes[max(from, first_s)]) : NONE;
        }
        if (__syncthreads_or(inside) != 0) {
            body(Tile{first_r, first_s, needs});
        }
    }
}

// Emits those of a thread's pairs whose overlap is enough: pair (i, j) has the tile's sets row(i) and column(j), which
// may be past the ends. All threads of the block call it.
template <typename Row, typename Column, typename Overlap>
__device__ __forceinline__ void take_tile(const Join& join, const Tile& tile, const u32* __restrict__ lo,
                                          const u32* __restrict__ hi, Row row, Column column, Overlap overlap) {
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 need = tile.needs[row(i)];
        u32 left = 0;
#pragma unroll
        for (u32 j = 0; j < EACH; j++) {
            left |= u32(overlap(i, j) >= need) << j;
        }
        left = need == NONE ? 0 : left;
#pragma unroll 1
        for (; __any_sync(ALL_LANES, left != 0); left &= left - 1) {
            const u32 bit = left == 0 ? 0 : __ffs(left) - 1;
            const u32 r = tile.first_r + row(i);
            const u32 s = tile.first_s + column(bit);
            u32 o = 0;
#pragma unroll
            for (u32 j = 0; j < EACH; j++) {
                o = j == bit ? overlap(i, j) : o;
            }
            const bool match = left != 0 && s < join.build.n && lo[r] <= s && s < hi[r] &&
                               join.measure.passes(o, join.probe.sizes[r], join.build.sizes[s]);
            join.take(match, r, s);
        }
    }
}
