// Folds of prefixes of a level's nodes. A node of a level is 2^shift consecutive values from a multiple of that on.
#pragma once

#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>

#include "theta/folds.cuh"

// Consecutive values of a thread, and of a block.
constexpr u32 EACH = 8;
constexpr u32 NODE_TILE_BITS = 11;
constexpr u32 NODE_TILE = BLOCK * EACH;
static_assert(NODE_TILE == 1u << NODE_TILE_BITS, "the host counts tiles");

// Replaces each of a block's values, `EACH` consecutive ones a thread, by the fold of its node, or of the part of it in the tile, up to the value.
template <typename Fold>
__device__ __forceinline__ void fold_nodes(typename Fold::Value (&values)[EACH], u32 shift, typename Fold::Value* of_warps) {
    typedef typename Fold::Value Value;
    const u32 node = shift < NODE_TILE_BITS ? 1u << shift : NODE_TILE;
#pragma unroll
    for (u32 k = 1; k < EACH; k++) {
        if ((k & (node - 1)) != 0) {
            values[k] = Fold::combine(values[k - 1], values[k]);
        }
    }
    if (node <= EACH) {
        return;
    }
    const u32 threads = node / EACH;
    const u32 lanes = min(threads, WARP);
    const u32 lane = threadIdx.x & (lanes - 1);
    const u32 warp = threadIdx.x / WARP;
    Value up_to = values[EACH - 1];
    for (u32 distance = 1; distance < lanes; distance *= 2) {
        const Value before = shuffled_up(up_to, distance);
        up_to = lane >= distance ? Fold::combine(before, up_to) : up_to;
    }
    Value before = shuffled_up(up_to, 1);
    before = lane > 0 ? before : Fold::zero();
    if (threads > WARP) {
        if (lane == WARP - 1) {
            of_warps[warp] = up_to;
        }
        __syncthreads();
        Value earlier = Fold::zero();
        for (u32 w = warp & ~(threads / WARP - 1); w < warp; w++) {
            earlier = Fold::combine(earlier, of_warps[w]);
        }
        before = Fold::combine(earlier, before);
        __syncthreads();
    }
#pragma unroll
    for (u32 k = 0; k < EACH; k++) {
        values[k] = Fold::combine(before, values[k]);
    }
}

// The folds of the prefixes of a level's nodes, tile by tile: those of nodes that are longer than a tile, and the totals of the tiles, lack what is
// before the tile. `totals` may be null if nodes are no longer than a tile.
template <typename Fold>
__device__ __forceinline__ void write_prefixes(const typename Fold::Value* values, u32 n, u32 shift, typename Fold::Value* prefixes,
                                               typename Fold::Value* totals) {
    typedef typename Fold::Value Value;
    using Load = cub::BlockLoad<Value, BLOCK, EACH, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<Value, BLOCK, EACH, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } scratch;
    __shared__ __align__(16) unsigned char of_warps[BLOCK / WARP * sizeof(Value)];
    const u32 first = blockIdx.x * NODE_TILE;
    const u32 count = min(n - first, NODE_TILE);
    Value mine[EACH];
    Load(scratch.load).Load(values + first, mine, count, Fold::zero());
    fold_nodes<Fold>(mine, shift, reinterpret_cast<Value*>(of_warps));
    __syncthreads();
    Store(scratch.store).Store(prefixes + first, mine, count);
    if (totals != nullptr && threadIdx.x == BLOCK - 1) {
        totals[blockIdx.x] = mine[EACH - 1];
    }
}

// Replaces the total of each tile by the fold of its node up to the tile's end; a node has 2^shift tiles. By one block.
template <typename Fold>
__device__ __forceinline__ void add_up_tiles(typename Fold::Value* totals, u32 tiles, u32 shift) {
    typedef typename Fold::Value Value;
    __shared__ __align__(16) unsigned char of_warps[BLOCK / WARP * sizeof(Value)];
    __shared__ __align__(16) unsigned char last[sizeof(Value)];
    Value* const so_far = reinterpret_cast<Value*>(last);
    for (u32 first = 0; first < tiles; first += NODE_TILE) {
        const u32 mine_first = first + threadIdx.x * EACH;
        Value mine[EACH];
#pragma unroll
        for (u32 k = 0; k < EACH; k++) {
            mine[k] = mine_first + k < tiles ? totals[mine_first + k] : Fold::zero();
        }
        fold_nodes<Fold>(mine, shift, reinterpret_cast<Value*>(of_warps));
        const bool continues = (first & ((1u << shift) - 1)) != 0;
        const Value before = continues ? *so_far : Fold::zero();
#pragma unroll
        for (u32 k = 0; k < EACH; k++) {
            mine[k] = Fold::combine(before, mine[k]);
            if (mine_first + k < tiles) {
                totals[mine_first + k] = mine[k];
            }
        }
        __syncthreads();
        if (threadIdx.x == BLOCK - 1) {
            *so_far = mine[EACH - 1];
        }
        __syncthreads();
    }
}

// A level of the tree: its halves have 2^shift positions.
template <typename Fold>
struct Level {
    typedef typename Fold::Value Value;
    // The number of positions without the level's bit before each place of the level above.
    const u32* zeros;
    // Folds of the prefixes of the halves, and up to the ends of the tiles of halves that are longer than a tile.
    const Value* prefixes;
    const Value* tiles;
    u32 shift;

    // The number of the first `count` positions of the node of position `at` that are in its left half.
    __device__ __forceinline__ u32 in_left(u32 at, u32 count) const {
        const u32 start = at >> (shift + 1) << (shift + 1);
        // Each node before has as many in its left half as in its right one.
        return zeros[start + count] - start / 2;
    }

    // The fold of the first `count` > 0 positions of the half that begins at `start`.
    __device__ __forceinline__ Value of_prefix(u32 start, u32 count) const {
        const u32 at = start + count - 1;
        const Value inside = prefixes[at];
        const u32 tile = at / NODE_TILE;
        return tile * NODE_TILE > start ? Fold::combine(tiles[tile - 1], inside) : inside;
    }
};

// Descends from one level to the next, and folds what both edges of the probe row's range leave between them. `of_lo` and `of_hi` are the numbers of
// positions below the probe row's bound in the nodes of `lo` and of `hi`; 0 for an edge that is none, or whose node has none.
template <typename Fold>
__device__ __forceinline__ void descend(const Level<Fold>& level, const u32* lo, const u32* hi, u32* of_lo, u32* of_hi,
                                        typename Fold::Value* folded, u32* some, u32 m) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= m) {
        return;
    }
    const u32 below_lo = of_lo[i], below_hi = of_hi[i];
    if ((below_lo | below_hi) == 0) {
        return;
    }
    const u32 half = 1u << level.shift;
    const u32 left = lo[i], right = hi[i];
    const bool together = below_lo > 0 && below_hi > 0 && (left ^ right) >> (level.shift + 1) == 0;
    typename Fold::Value fold = Fold::zero();
    bool any = false;
    if (below_lo > 0) {
        const u32 in_left = level.in_left(left, below_lo), in_right = below_lo - in_left;
        const bool goes_left = (left & half) == 0;
        if (goes_left && !together && in_right > 0) {
            fold = level.of_prefix((left >> level.shift << level.shift) + half, in_right);
            any = true;
        }
        const u32 next = goes_left ? in_left : in_right;
        of_lo[i] = next;
        // The range begins with `lo` itself.
        if (level.shift == 0 && next > 0) {
            fold = Fold::combine(fold, level.of_prefix(left, 1));
            any = true;
        }
    }
    if (below_hi > 0) {
        const u32 in_left = level.in_left(right, below_hi);
        const bool goes_left = (right & half) == 0;
        if (!goes_left && !together && in_left > 0) {
            fold = Fold::combine(fold, level.of_prefix((right >> level.shift << level.shift) - half, in_left));
            any = true;
        }
        of_hi[i] = goes_left ? in_left : below_hi - in_left;
    }
    if (any) {
        folded[i] = Fold::combine(folded[i], fold);
        some[i] = 1;
    }
}
