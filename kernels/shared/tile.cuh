// How blocks divide rows. A block of 256 threads processes a tile of 1024 rows, and each of its warps 128 consecutive
// rows. A thread has four loads in flight, and the four ballots of a warp are four consecutive words of a bitmap.
#pragma once

#include "shared/common.cuh"

constexpr u32 WARP = 32;
constexpr u32 ALL_LANES = 0xFFFFFFFFu;
constexpr u32 BLOCK = 256;
constexpr u32 ITEMS = 4;
constexpr u32 TILE = BLOCK * ITEMS;

// A value, and the row at which it is stored.
template <typename T>
struct Placed {
    T value;
    u32 row;
};

// The first row of this warp in tile `tile`.
__device__ __forceinline__ u32 warp_first(u32 tile) {
    return tile * TILE + threadIdx.x / WARP * (WARP * ITEMS);
}

// Calls `store(i, load(i))` for every row of a tile below `n`. Loads past the end read the last row instead, so that no
// branch separates the four loads of a thread.
template <typename Load, typename Store>
__device__ __forceinline__ void each_row_of_tile(u32 tile, u32 n, Load load, Store store) {
    const u32 first = warp_first(tile) + threadIdx.x % WARP;
    decltype(load(0u)) loaded[ITEMS];
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        loaded[k] = load(min(first + k * WARP, n - 1));
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 i = first + k * WARP;
        if (i < n) {
            store(i, loaded[k]);
        }
    }
}

// The rows of this block's tile. Grid: one block for each tile.
template <typename Load, typename Store>
__device__ __forceinline__ void each_row(u32 n, Load load, Store store) {
    each_row_of_tile(blockIdx.x, n, load, store);
}

// The rows of all tiles, distributed round-robin over a grid of any size.
template <typename Load, typename Store>
__device__ __forceinline__ void each_row_in_turn(u32 n, Load load, Store store) {
    for (u32 tile = blockIdx.x; tile < (n + TILE - 1) / TILE; tile += gridDim.x) {
        each_row_of_tile(tile, n, load, store);
    }
}

// Calls `store(w, word)` for every word of a bitmap of `n` rows in the block's tile. `bit(i)` is the value of bit `i`;
// bits past the end are 0.
template <typename Bit, typename Store>
__device__ __forceinline__ void each_word(u32 n, Bit bit, Store store) {
    const u32 first = warp_first(blockIdx.x);
    const u32 lane = threadIdx.x % WARP;
    bool set[ITEMS];
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        set[k] = bit(min(first + k * WARP + lane, n - 1));
    }
    u32 mine = 0;
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 word = __ballot_sync(ALL_LANES, set[k] && first + k * WARP + lane < n);
        mine = lane == k ? word : mine;
    }
    const u32 word = first / WARP + lane;
    if (lane < ITEMS && word < (n + WARP - 1) / WARP) {
        store(word, mine);
    }
}
