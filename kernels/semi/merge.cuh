// Merge joins of two presorted sides: one walk over both, without a table and without a sort ([D]'s relations are
// always sorted; merge path: Green, McColl & Bader 2012).
//
//   merge*_range_*   the build rows that may have a key of the probe side
//   merge*_look_*    whether both sides seem to be sorted, from a sample
//   merge*_cuts_*    where the sides are cut into tiles of equally many rows of both, whatever the keys
//   merge*_join_*    the matches of a tile with all their columns, for unique build keys
//   merge*_keep_*    the probe rows of a tile with a match, or those without one
//
// The order is checked while keys are read, so a caller needs no proof that the sides are sorted.
#pragma once

#include "semi/merge_cuts.cuh"
#include "semi/merge_join.cuh"

// range[0] .. range[1] are the build rows with all keys from the first to the last of the probe side, if both sides
// ascend. Bound: negligible. Launch: one block of 64; m is above 0.
#define MERGE_RANGE(WIDTH, name, Key)                                                                                           \
    extern "C" __global__ void __launch_bounds__(CUTS) merge##WIDTH##_range_##name(                                             \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, u32* __restrict__ range) {                  \
        merge_range(build, n, probe, m, range);                                                                                 \
    }

// *status = NOT_ASCENDING if a few hundred sampled keys of a side are out of order. Bound: negligible. Launch: one
// block of 64; *status is zeroed first.
#define MERGE_LOOK(WIDTH, name, Key)                                                                                            \
    extern "C" __global__ void __launch_bounds__(CUTS) merge##WIDTH##_look_##name(                                              \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, u32* status) {                              \
        merge_look(build, n, probe, m, status);                                                                                 \
    }

// cuts[t] = the number of build rows before tile t, where a tile has TILE_ROWS rows of both sides; for t = tiles, the
// number of all build rows. For keys that do not ascend the cuts are meaningless, but at most n. Bound: negligible.
// Launch: blocks of 64, a thread for each of tiles + 1 cuts; n + m and a tile are below 2^32.
#define MERGE_CUTS(WIDTH, name, Key)                                                                                            \
    extern "C" __global__ void __launch_bounds__(CUTS) merge##WIDTH##_cuts_##name(                                              \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, u32 tiles, u32* __restrict__ cuts) {        \
        merge_cuts(build, n, probe, m, tiles, cuts);                                                                            \
    }

// Writes every match, in no order: the key (if out_keys is not null) and the values of both sides' columns. A column
// that is null stands for row numbers, which begin at `offset` on the build side. *written is the number of matches.
// NOT_ASCENDING or NO_ROOM in *status: the results are invalid.
// Bound: keys, columns and results once. Launch: a block of 256 for each tile, with TILE_SHARED bytes of dynamic shared
// memory, and 4 more for each key in a block's units; *written and *status are zeroed first. Keys begin at a multiple
// of 16 bytes, and reads may extend to the next multiple after their end.
#define MERGE_JOIN(WIDTH, name, Key)                                                                                            \
    extern "C" __global__ void __launch_bounds__(BLOCK, 5) merge##WIDTH##_join_##name(                                          \
        const Key* __restrict__ build, u32 n, const Key* __restrict__ probe, u32 m, const u32* __restrict__ cuts,               \
        const Column* __restrict__ build_columns, u32 build_count, const Column* __restrict__ probe_columns,                    \
        u32 probe_count, u32 offset, Key* out_keys, u64 room, u64* written, u32* status) {                                      \
        merge_join<true, Key>({build, n}, {probe, m}, cuts, 0,                                                                  \
                              {build_columns, build_count, probe_columns, probe_count, offset, out_keys, room},                 \
                              written, status);                                                                                 \
    }

// The same for each probe row with a match, or without one if `without`. Build keys may have duplicates.
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
