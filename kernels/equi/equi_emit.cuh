// Output of the matches of a block: the reservation of output positions, and the writes of columns.
#pragma once

#include "equi/equi_columns.cuh"
#include "shared/tile.cuh"

// No build row has the key.
constexpr u32 NONE = 0xFFFFFFFFu;

// Status bits. Build keys have duplicates: the output is invalid.
constexpr u32 DUPLICATE_KEYS = 1;
// The output buffer was too small.
constexpr u32 NO_ROOM = 2;
// Build keys collide too often: a hash table has not all of them.
constexpr u32 TOO_FAR = 4;

// Output positions of a block: those of each warp are contiguous, item after item, so that lanes write to neighbouring
// positions.
template <u32 BLOCK_WARPS>
struct Places {
    u32 totals[BLOCK_WARPS];
    u64 base;

    // Reserves output rows for the matches of the block. `set(k, place)` receives the position of item k of this
    // thread, if it has a match, relative to the block's first position `first`. False for the whole block if it has no
    // match, or if the output is full.
    template <u32 N, typename Set>
    __device__ __forceinline__ bool take(const u32 (&found)[N], u64 room, u64* written, u32* status, u64& first, Set set) {
        const u32 warp = threadIdx.x / WARP;
        u32 mine = 0;
#pragma unroll
        for (u32 k = 0; k < N; k++) {
            mine += __popc(__ballot_sync(ALL_LANES, found[k] != NONE));
        }
        if (threadIdx.x % WARP == 0) {
            totals[warp] = mine;
        }
        __syncthreads();
        u32 before = 0, total = 0;
#pragma unroll
        for (u32 w = 0; w < BLOCK_WARPS; w++) {
            before += w < warp ? totals[w] : 0;
            total += totals[w];
        }
        if (total == 0) {
            return false;
        }
        if (threadIdx.x == 0) {
            base = atomicAdd(written, u64(total));
            if (base + total > room) {
                atomicOr(status, NO_ROOM);
            }
        }
        const u32 below = (1u << threadIdx.x % WARP) - 1;
#pragma unroll
        for (u32 k = 0; k < N; k++) {
            const u32 lanes = __ballot_sync(ALL_LANES, found[k] != NONE);
            if (found[k] != NONE) {
                set(k, before + __popc(lanes & below));
            }
            before += __popc(lanes);
        }
        __syncthreads();
        first = base;
        return first + total <= room;
    }
};

// Writes a value of a column for every match. `hits.has(k)` says whether item k has a match, and `hits.place(k)` is its
// position relative to `out`. The number of loads before the first write is as large as the registers allow.
template <u32 N, class Value, class Hits, typename Load>
__device__ __forceinline__ void write_column(const Hits& hits, Value* out, Load load) {
    constexpr u32 GROUP = sizeof(Value) == 4 ? N : sizeof(Value) == 16 ? 1 : N % 3 == 0 ? 3 : 2;
    static_assert(N % GROUP == 0, "groups are of equal length");
#pragma unroll
    for (u32 begin = 0; begin < N; begin += GROUP) {
        Value values[GROUP];
#pragma unroll
        for (u32 k = 0; k < GROUP; k++) {
            if (hits.has(begin + k)) {
                values[k] = load(begin + k);
            }
        }
#pragma unroll
        for (u32 k = 0; k < GROUP; k++) {
            if (hits.has(begin + k)) {
                out[hits.place(begin + k)] = values[k];
            }
        }
    }
}
