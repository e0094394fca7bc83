// Non-partitioned hash join ([W] 3.1.3): one table of the build side in device memory. It is the best choice if the
// table fits in L2, or if few rows match and moving the probe side is not worth it.
#pragma once

#include "equi/equi_index.cuh"

// Inserts the tile's build rows: their first compare-and-swaps are in flight together, and each row then probes on
// until it has a slot, or took MOST_STEPS. Of duplicate keys a single row stays in the table.
template <class Key>
__device__ __forceinline__ void table_build(const SlotIndex<Key>& index, const Key* keys, const u32* valid, u32 n,
                                            u32* status) {
    if (is_reported(TOO_FAR, status)) {
        return;
    }
    const u32 begin = warp_first(blockIdx.x) + threadIdx.x % WARP;
    Key key[PROBE_ITEMS];
    u64 old[PROBE_ITEMS];
    bool live[PROBE_ITEMS];
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        const u32 i = min(begin + k * WARP, n - 1);
        key[k] = keys[i];
        live[k] = begin + k * WARP < n && bit_at(valid, i);
    }
    const auto entry = [&](u32 k) { return u64(index.tag(key[k])) << 32 | (begin + k * WARP); };
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        old[k] = live[k] ? atomicCAS(&index.slots[index.home(key[k])], EMPTY_SLOT, entry(k)) : EMPTY_SLOT;
    }
    bool met = false, far = false;
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        u32 at = index.home(key[k]);
        for (u32 steps = 0; old[k] != EMPTY_SLOT && !index.holds(old[k], key[k]); steps++) {
            if (steps == MOST_STEPS) {
                far = true;
                break;
            }
            at = (at + 1) & index.mask;
            old[k] = atomicCAS(&index.slots[at], EMPTY_SLOT, entry(k));
        }
        met = met || old[k] != EMPTY_SLOT;
    }
    report(met, DUPLICATE_KEYS, status);
    report(far, TOO_FAR, status);
}

// Inserts the valid rows' keys into the table; sets DUPLICATE_KEYS in *status if keys have duplicates, of which one row
// stays; TOO_FAR if a key found no slot within MOST_STEPS of its home: then the table and the other bit are of no use.
// Bound: an atomic at random a row (12 to 31 G/s by the table's size). Launch: blocks of 256, a block for each 1024
// rows; the number of slots is a power of two, at least twice n, and their bits are all set first (EMPTY_SLOT); `mask`
// is slots - 1; *status is zeroed first.
#define TABLE_BUILD(name, Key)                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_table_build_##name(                                    \
        const Key* __restrict__ keys, const u32* __restrict__ valid, u32 n, u64* slots, u32 mask, u32* status) {    \
        table_build<Key>({slots, mask, keys}, keys, valid, n, status);                                              \
    }

// out[i] = the build row with probe row i's key, or NONE. Build keys are unique. Bound: the key read, a slot at random
// (for matching keys of 64 bits the build key too) and 4 bytes written a row. Launch: blocks of 256, a block for each
// 1024 rows.
#define TABLE_PROBE(name, Key)                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_table_probe_##name(                                    \
        u64* slots, u32 mask, const Key* __restrict__ build_keys, const Key* __restrict__ keys,                     \
        const u32* __restrict__ valid, u32 n, u32* __restrict__ out) {                                              \
        probe_rows(SlotIndex<Key>{slots, mask, build_keys}, keys, valid, n, out);                                   \
    }

// out[i] = the number of the slot with row i's key, or NONE: the group of a row of either side. Bound, launch: as
// above.
#define TABLE_SLOTS(name, Key)                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_table_slots_##name(                                    \
        u64* slots, u32 mask, const Key* __restrict__ build_keys, const Key* __restrict__ keys,                     \
        const u32* __restrict__ valid, u32 n, u32* __restrict__ out) {                                              \
        probe_rows(SlotNumbers<Key>{{slots, mask, build_keys}}, keys, valid, n, out);                               \
    }

// The inner join, materialised from untransformed columns: *written results in no order, with the key if out_keys is
// not null. Build keys are unique. NO_ROOM in *status: there were more than `room` results.
// Bound: as the probe; a value of each build column at random, the rest in order. Launch: blocks of 256, a block for
// each 1024 rows; *written and *status are zeroed first.
#define TABLE_JOIN(name, Key)                                                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK) equi_table_join_##name(                                     \
        u64* slots, u32 mask, const Key* __restrict__ build_keys, const Column* __restrict__ build_columns,         \
        u32 build_count, const Key* __restrict__ keys, const u32* __restrict__ valid, u32 n,                        \
        const Column* __restrict__ probe_columns, u32 probe_count, Key* out_keys, u64 room, u64* written,           \
        u32* status) {                                                                                              \
        join_rows<Key>(SlotIndex<Key>{slots, mask, build_keys}, keys, valid, n,                                     \
                       {build_columns, build_count, probe_columns, probe_count, out_keys, room, written, status});  \
    }

TABLE_BUILD(u32, u32)
TABLE_BUILD(u64, u64)
TABLE_PROBE(u32, u32)
TABLE_PROBE(u64, u64)
TABLE_SLOTS(u32, u32)
TABLE_SLOTS(u64, u64)
TABLE_JOIN(u32, u32)
TABLE_JOIN(u64, u64)
