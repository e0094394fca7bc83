// What the model of [W] 4.1.4 depends on, from a sample of the keys: the match ratio of the probe side, and whether
// build keys have duplicates. The sample is the keys whose mixed bits end in zeros, the same keys on both sides, in a
// part of the rows. Each key has one of 2^22 bits, by its upper mixed bits; the probability of a false match is the
// share of bits that are set. A key of many probe rows counts once, or it would dominate the ratio.
#pragma once

#include "equi/equi_hash.cuh"
#include "shared/tile.cuh"

constexpr u32 SAMPLED_LOG_BITS = 22;

// Whether a row's key is in the sample, and its bit.
template <class Key>
struct Sampled {
    bool is_in;
    u32 word, bit;

    __device__ __forceinline__ Sampled(Key key, u32 mask) {
        const Key mixed = mix(key);
        is_in = ((u32)mixed & mask) == 0;
        const u32 at = (u32)(mixed >> (8 * sizeof(Key) - SAMPLED_LOG_BITS));
        word = at / WARP;
        bit = 1u << (at % WARP);
    }

    __device__ __forceinline__ bool is_set(const u32* bits) const { return (bits[word] & bit) != 0; }

    // Sets the bit; returns whether it was set before.
    __device__ __forceinline__ bool set(u32* bits) const { return (atomicOr(bits + word, bit) & bit) != 0; }
};

// Adds the counts of a warp's threads.
__device__ __forceinline__ void add_counts(u32 sampled, u32 found, u32* counts) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        sampled += __shfl_xor_sync(ALL_LANES, sampled, distance);
        found += __shfl_xor_sync(ALL_LANES, found, distance);
    }
    if (threadIdx.x % WARP == 0 && sampled != 0) {
        atomicAdd(counts, sampled);
        atomicAdd(counts + 1, found);
    }
}

// Calls `step(row)` for the sampled keys of one tile of 1024 rows in each `every` tiles. The tile is chosen by hash, as
// rows of a key may be a fixed number of tiles apart.
template <class Key, typename Step>
__device__ __forceinline__ void each_sampled(const Key* keys, const u32* valid, u32 n, u32 every, u32 mask, Step step) {
    const u32 tiles = (n + TILE - 1) / TILE;
    for (u32 part = blockIdx.x; part < (tiles + every - 1) / every; part += gridDim.x) {
        const u32 tile = part * every + mix(part) % every;
        if (tile >= tiles) {
            continue;
        }
        each_row_of_tile(
            tile, n, [&](u32 i) { return keys[i]; },
            [&](u32 i, Key key) {
                const Sampled<Key> row(key, mask);
                if (row.is_in && bit_at(valid, i)) {
                    step(row);
                }
            });
    }
}

// equi_sample_build_*: sets the bits of the sampled keys in one of each `every` tiles of 1024 rows. counts[0] grows by
// the number of sampled rows, counts[1] by the number of those that found their bit set. Rows that are not `valid`
// (null: all are) are not sampled.
//
// equi_sample_probe_*: the same for the probe side, where each key counts once: it sets its bit of `seen`. counts[0]
// grows by the number of keys, counts[1] by the number of those whose bit the build side set.
//
// Bound: the keys of those tiles read once. Launch: blocks of 256, a grid of any size (8 blocks a multiprocessor);
// `mask` is a power of two less 1; bits[2^22 / 32] and seen[2^22 / 32] are zeroed first.
#define SAMPLE(name, Key)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_sample_build_##name(                                          \
        const Key* __restrict__ keys, const u32* __restrict__ valid, u32 n, u32 every, u32 mask, u32* bits, u32* counts) { \
        u32 sampled = 0, again = 0;                                                                                        \
        each_sampled(keys, valid, n, every, mask, [&](const Sampled<Key>& row) {                                           \
            sampled++;                                                                                                     \
            again += row.set(bits);                                                                                        \
        });                                                                                                                \
        add_counts(sampled, again, counts);                                                                                \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_sample_probe_##name(                                          \
        const Key* __restrict__ keys, const u32* __restrict__ valid, u32 n, u32 every, u32 mask,                           \
        const u32* __restrict__ bits, u32* seen, u32* counts) {                                                            \
        u32 sampled = 0, found = 0;                                                                                        \
        each_sampled(keys, valid, n, every, mask, [&](const Sampled<Key>& row) {                                           \
            if (!row.set(seen)) {                                                                                          \
                sampled++;                                                                                                 \
                found += row.is_set(bits);                                                                                 \
            }                                                                                                              \
        });                                                                                                                \
        add_counts(sampled, found, counts);                                                                                \
    }

SAMPLE(u32, u32)
SAMPLE(u64, u64)
