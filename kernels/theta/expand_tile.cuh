// The matches of a window, cut into tiles of equal work whatever the lengths of the ranges.
//
// This is a merge path: probe positions and matches are items of one order, each position before its matches. Tiles are
// cut by item number, not by match number, so the matches and the positions of a tile are both bounded, and a million
// empty ranges cost no block more than any other input.
#pragma once

#include "shared/search.cuh"

constexpr u32 WARPS = BLOCK / WARP;
// Matches of a tile in shared memory. The first is at slot 0 to 3, so that the output is aligned to 16 bytes.
constexpr u32 SLOTS = 4096;
constexpr u32 TILE_ITEMS = SLOTS - 4;
constexpr u32 SLOTS_OF_THREAD = SLOTS / BLOCK;

// The matches numbered `from .. from + len`, and their probe positions `first .. first + positions`.
struct Window {
    const u64* offsets;
    u64 from, to;
    u32 first, positions;

    // The number of the window's matches before position `first + p`.
    __device__ __forceinline__ u32 pairs_before(u32 p) const { return u32(min(max(offsets[first + p], from), to) - from); }

    // The number of positions among the first `item` items.
    __device__ __forceinline__ u32 positions_before(u64 item) const {
        return warp_partition_point(0, positions, [&](u32 p) { return u64(p) + pairs_before(p) < item; });
    }
};

// A tile's items: `positions` and `pairs` are the numbers of the window's positions and matches before it, the `end_`
// ones those before the next tile.
struct Tile {
    u32 positions, end_positions;
    u32 pairs, end_pairs;

    // The match of slot 0; a tile's first match is up to 3 slots later.
    __device__ __forceinline__ u32 first_slot() const { return pairs & ~3u; }
};

// `place[slot]` is the index into `bases` and `ids` of the match's probe position. `bases` is the match's build
// position minus its slot, `ids` the probe row.
struct Owners {
    alignas(16) u16 place[SLOTS];
    u32 bases[SLOTS];
    u32 ids[SLOTS];
    u32 greatest[WARPS];
};

// Fills `place` from its first slots: the slot of each position's first match holds its place, all others hold 0, and
// places ascend.
__device__ __forceinline__ void spread(Owners& owners) {
    const u32 warp = threadIdx.x / WARP;
    const u32 lane = threadIdx.x % WARP;
    uint4* const mine = reinterpret_cast<uint4*>(owners.place) + threadIdx.x * (SLOTS_OF_THREAD / 8);
    u32 words[SLOTS_OF_THREAD / 2];
    u32 greatest = 0;
#pragma unroll
    for (u32 i = 0; i < SLOTS_OF_THREAD / 8; i++) {
        const uint4 four = mine[i];
        words[4 * i] = four.x;
        words[4 * i + 1] = four.y;
        words[4 * i + 2] = four.z;
        words[4 * i + 3] = four.w;
    }
#pragma unroll
    for (u32 i = 0; i < SLOTS_OF_THREAD / 2; i++) {
        greatest = max(greatest, max(words[i] & 0xFFFFu, words[i] >> 16));
    }
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        greatest = max(greatest, __shfl_up_sync(ALL_LANES, greatest, distance));
    }
    if (lane == WARP - 1) {
        owners.greatest[warp] = greatest;
    }
    u32 place = __shfl_up_sync(ALL_LANES, greatest, 1);
    place = lane == 0 ? 0 : place;
    __syncthreads();
    for (u32 w = 0; w < warp; w++) {
        place = max(place, owners.greatest[w]);
    }
#pragma unroll
    for (u32 i = 0; i < SLOTS_OF_THREAD / 2; i++) {
        const u32 low = max(place, words[i] & 0xFFFFu);
        place = max(low, words[i] >> 16);
        words[i] = low | place << 16;
    }
#pragma unroll
    for (u32 i = 0; i < SLOTS_OF_THREAD / 8; i++) {
        mine[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    }
    __syncthreads();
}

// Fills the owner of each slot of a tile. `owner(position, place, shift)` is called once for each position with matches
// in the tile; slot + `shift` is the number of the position's matches before that slot. (`shift` wraps if the range
// begins after slot 0; adding the slot wraps back.)
template <typename Owner>
__device__ __forceinline__ void mark_owners(const Window& window, const Tile& tile, Owners& owners, Owner owner) {
    const u32 aligned = tile.first_slot();
#pragma unroll
    for (u32 i = 0; i < SLOTS_OF_THREAD / 8; i++) {
        reinterpret_cast<uint4*>(owners.place)[i * BLOCK + threadIdx.x] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();

    // The last position before the tile may have matches in it.
    const u32 first = tile.positions == 0 ? 0 : tile.positions - 1;
    for (u32 place = threadIdx.x; first + place < tile.end_positions; place += BLOCK) {
        const u32 p = first + place;
        const u32 begin = max(window.pairs_before(p), tile.pairs);
        const u32 end = min(window.pairs_before(p + 1), tile.end_pairs);
        if (begin < end) {
            const u32 position = window.first + p;
            owners.place[begin - aligned] = u16(place);
            owner(position, place, u32(window.from + aligned - window.offsets[position]));
        }
    }
    __syncthreads();
    spread(owners);
}

// The block's part of a window's tiles: consecutive tiles, WARPS - 1 at a time, whose limits its warps find together.
// Calls `body(window, tile)` for each tile with matches.
template <typename Body>
__device__ __forceinline__ void each_tile(Window window, u32 positions, Body body) {
    __shared__ u32 limits[WARPS];
    const u32 warp = threadIdx.x / WARP;
    const u32 lane = threadIdx.x % WARP;
    const u64* const offsets = window.offsets;
    if (warp < 2) {
        const u32 limit = warp == 0 ? warp_partition_point(0, positions, [&](u32 p) { return offsets[p + 1] <= window.from; })
                                    : warp_partition_point(0, positions, [&](u32 p) { return offsets[p] < window.to; });
        if (lane == 0) {
            limits[warp] = limit;
        }
    }
    __syncthreads();
    window.first = limits[0];
    window.positions = limits[1] - limits[0];
    __syncthreads();

    const u64 items = window.to - window.from + window.positions;
    const u32 tiles = u32((items + TILE_ITEMS - 1) / TILE_ITEMS);
    const u32 share = (tiles + gridDim.x - 1) / gridDim.x;
    const u32 end = min((blockIdx.x + 1) * share, tiles);
    for (u32 next = blockIdx.x * share; next < end; next += WARPS - 1) {
        const u32 limit = window.positions_before(min(u64(next + warp) * TILE_ITEMS, items));
        if (lane == 0) {
            limits[warp] = limit;
        }
        __syncthreads();
        for (u32 t = 0; t + 1 < WARPS && next + t < end; t++) {
            Tile tile;
            tile.positions = limits[t];
            tile.end_positions = limits[t + 1];
            tile.pairs = u32(u64(next + t) * TILE_ITEMS - tile.positions);
            tile.end_pairs = u32(min(u64(next + t + 1) * TILE_ITEMS, items) - tile.end_positions);
            if (tile.pairs < tile.end_pairs) {
                body(window, tile);
            }
        }
        __syncthreads();
    }
}
