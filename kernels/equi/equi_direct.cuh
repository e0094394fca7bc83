// Join by direct address: an array of build rows by key - least, for dense keys.
#pragma once

#include "equi/equi_index.cuh"

template <class Key>
__device__ __forceinline__ void direct_build(const ArrayPlaces<Key>& places, const Key* keys, const u32* valid, u32 n,
                                             u32* rows, u32* status) {
    Key key[PROBE_ITEMS];
    u32 place[PROBE_ITEMS];
    look_up(places, keys, valid, n, key, place);
    u32 old[PROBE_ITEMS];
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        const u32 row = warp_first(blockIdx.x) + threadIdx.x % WARP + k * WARP;
        old[k] = place[k] == NONE ? NONE : atomicExch(&rows[place[k]], row);
    }
    bool met = false;
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        met = met || old[k] != NONE;
    }
    report(met, DUPLICATE_KEYS, status);
}

// rows[key - least] = row, for valid rows; sets DUPLICATE_KEYS in *status if keys have duplicates. Keys wrap around;
// keys that are `range` or more above `least` are ignored.
// Bound: the key read and an atomic a row, at random unless keys ascend. Launch: blocks of 256, a block for each 1024
// rows; rows[range] are set to NONE (all bits set) and *status to zero first.
#define DIRECT_BUILD(name, Key)                                                                                     \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_direct_build_##name(                                   \
        const Key* __restrict__ keys, const u32* __restrict__ valid, u32 n, Key least, u32 range, u32* rows,        \
        u32* status) {                                                                                              \
        direct_build<Key>({least, range}, keys, valid, n, rows, status);                                            \
    }

// out[i] = the build row with probe row i's key, or NONE. Bound: the key read, 4 bytes at random, 4 written a row.
// Launch: blocks of 256, a block for each 1024 rows.
#define DIRECT_PROBE(name, Key)                                                                                     \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_direct_probe_##name(                                   \
        const u32* __restrict__ rows, Key least, u32 range, const Key* __restrict__ keys,                           \
        const u32* __restrict__ valid, u32 n, u32* __restrict__ out) {                                              \
        probe_rows(ArrayIndex<Key>{rows, least, range}, keys, valid, n, out);                                       \
    }

// out[i] = key - least, or NONE: the group of a row of either side. Bound: the key read, 4 bytes written. Launch: as
// above.
#define DIRECT_PLACES(name, Key)                                                                                    \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_direct_places_##name(                                  \
        Key least, u32 range, const Key* __restrict__ keys, const u32* __restrict__ valid, u32 n,                   \
        u32* __restrict__ out) {                                                                                    \
        probe_rows(ArrayPlaces<Key>{least, range}, keys, valid, n, out);                                            \
    }

// The inner join, materialised, as equi_table_join_*.
#define DIRECT_JOIN(name, Key)                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_direct_join_##name(                                    \
        const u32* __restrict__ rows, Key least, u32 range, const Column* __restrict__ build_columns,               \
        u32 build_count, const Key* __restrict__ keys, const u32* __restrict__ valid, u32 n,                        \
        const Column* __restrict__ probe_columns, u32 probe_count, Key* out_keys, u64 room, u64* written,           \
        u32* status) {                                                                                              \
        join_rows<Key>(ArrayIndex<Key>{rows, least, range}, keys, valid, n,                                         \
                       {build_columns, build_count, probe_columns, probe_count, out_keys, room, written, status});  \
    }

DIRECT_BUILD(u32, u32)
DIRECT_BUILD(u64, u64)
DIRECT_PROBE(u32, u32)
DIRECT_PROBE(u64, u64)
DIRECT_PLACES(u32, u32)
DIRECT_PLACES(u64, u64)
DIRECT_JOIN(u32, u32)
DIRECT_JOIN(u64, u64)
