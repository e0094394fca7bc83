// Joins of two sides whose keys ascend, as they lie there: neither a table nor a sort, one walk over both ([D] reads sorted relations
// alone; merge path: Green, McColl & Bader 2012).
//
//   merge*_range_*   which build rows may have a key of the probe side
//   merge*_look_*    do both ascend here and there?
//   merge*_cuts_*    where are they cut, so that tiles have as many rows of both, whatever the keys?
//   merge*_join_*    the pairs of a tile, with all their columns, where build keys are unique
//   merge*_keep_*    its probe rows that have a build row, or those that have none
//
// Whether keys ascend is looked at as they are read, so whoever asks for a join only hopes that they do.
#pragma once

#include "semi/merge_cuts.cuh"
#include "semi/merge_join.cuh"

// range[0] .. range[1] are the build rows that have all keys from the first to the last of the probe side, if both ascend. Bound: nothing.
// Launch: a block of 64; m is above 0.
#define MERGE_RANGE(WIDTH, name, Key)                                                                                           \
    extern "C" __global__ void __launch_bounds__(CUTS) merge##WIDTH##_range_##name(                                             \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, u32* __restrict__ range) {                  \
        merge_range(build, n, probe, m, range);                                                                                 \
    }

// *status = NOT_ASCENDING where keys of a side fall somewhere among a few hundred that are looked at. Bound: nothing. Launch: a block of
// 64; *status is zeroed first.
#define MERGE_LOOK(WIDTH, name, Key)                                                                                            \
    extern "C" __global__ void __launch_bounds__(CUTS) merge##WIDTH##_look_##name(                                              \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, u32* status) {                              \
        merge_look(build, n, probe, m, status);                                                                                 \
    }

// cuts[t] = how many build rows come before tile t of TILE_ROWS rows of both sides, and before the end of all for t = tiles. Keys that
// do not ascend give cuts of no use, all of them at most n. Bound: nothing. Launch: blocks of 64, a thread for each of tiles + 1 cuts;
// n + m and a tile are below 2^32.
#define MERGE_CUTS(WIDTH, name, Key)                                                                                            \
    extern "C" __global__ void __launch_bounds__(CUTS) merge##WIDTH##_cuts_##name(                                              \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, u32 tiles, u32* __restrict__ cuts) {        \
        merge_cuts(build, n, probe, m, tiles, cuts);                                                                            \
    }

// Writes for each pair of rows with one key, in no order, the key (where out_keys is not null) and the values of both sides' columns, of
// which those without values are row numbers, the build side's from `offset` on; *written pairs. *status: NOT_ASCENDING and NO_ROOM say
// that the results are of no use.
// Bound: keys, columns and results once. Launch: a block of 256 for each tile, with TILE_SHARED bytes of dynamic shared memory, and 4 for
// each key in a block's units; *written and *status are zeroed first. Keys begin at a multiple of 16 bytes, and may be read up to
// the next one at their end.
#define MERGE_JOIN(WIDTH, name, Key)                                                                                            \
    extern "C" __global__ void __launch_bounds__(BLOCK, 5) merge##WIDTH##_join_##name(                                          \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, const u32* __restrict__ cuts,               \
        const Column* __restrict__ build_columns, u32 build_count, const Column* __restrict__ probe_columns,                    \
        u32 probe_count, u32 offset, Key* out_keys, u64 room, u64* written, u32* status) {                                      \
        merge_join<true, Key>({build, n}, {probe, m}, cuts, 0,                                                                  \
                              {build_columns, build_count, probe_columns, probe_count, offset, out_keys, room},                 \
                              written, status);                                                                                 \
    }

// The same for each probe row that has a build row, or has none if `without`. Build rows may share keys.
#define MERGE_KEEP(WIDTH, name, Key)                                                                                            \
    extern "C" __global__ void __launch_bounds__(BLOCK, 5) merge##WIDTH##_keep_##name(                                          \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, const u32* __restrict__ cuts,               \
        u32 without, const Column* __restrict__ probe_columns, u32 probe_count, Key* out_keys, u64 room, u64* written,          \
        u32* status) {                                                                                                          \
        merge_join<false, Key>({build, n}, {probe, m}, cuts, without,                                                           \
                               {nullptr, 0, probe_columns, probe_count, 0, out_keys, room}, written, status);                   \
    }

#define MERGE_ALL(WIDTH, name, Key) \
    MERGE_RANGE(WIDTH, name, Key)   \
    MERGE_LOOK(WIDTH, name, Key)    \
    MERGE_CUTS(WIDTH, name, Key)    \
    MERGE_JOIN(WIDTH, name, Key)    \
    MERGE_KEEP(WIDTH, name, Key)
