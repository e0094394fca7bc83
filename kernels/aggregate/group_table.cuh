// A block's table of keys in shared memory, and its flush to the groups.
#pragma once

#include "aggregate/block/group_block.cuh"

// Plain slots are probed in pairs. A key that is in no pair of its window, with all slots occupied, is not in the
// block's table.
constexpr u32 PAIRS = 2;
constexpr u32 WINDOW = 2 * PAIRS;

template <typename Key>
struct alignas(2 * sizeof(Key)) Pair {
    Key first, second;
};

// The number of hot slots is 0 or a power of two; one more is for the key that equals an empty slot. The number of
// plain slots is 0 or any multiple of 4: the last home has a whole window.
struct Shape {
    u32 hot_slots, plain_slots;

    __device__ __forceinline__ u32 first_plain() const { return (hot_slots + 1) * WARP; }
    __device__ __forceinline__ u32 places() const { return first_plain() + plain_slots + WARP; }
};

// States of a search for a place. Both are above any place and below IN_GLOBAL.
constexpr u32 UNKNOWN = IN_GLOBAL - 1;
constexpr u32 ABSENT = IN_GLOBAL - 2;

// The table of one block: hot keys, plain keys, and the directory for all others.
template <typename Slots>
struct Table {
    using Key = typename Slots::Key;
    static constexpr Key EMPTY = (Key)~0ull;

    Shape shape;
    Key* hot;
    Key* plain;
    // Whether the key EMPTY occurred.
    u32* odd;
    Directory directory;

    __device__ __forceinline__ u32 hot_of(u32 hash) const { return hash & (shape.hot_slots - 1); }

    // The first pair of a whole window.
    __device__ __forceinline__ u32 plain_of(u32 hash) const { return 2 * home_of(hash, shape.plain_slots / 2 - (PAIRS - 1)); }

    // Inserts a key that was found in no slot, if one is free. Another thread that inserts the same key at the same
    // time gets the same place.
    __device__ __forceinline__ u32 claim(Key key, u32 hash) const {
        Key found;
        if (shape.hot_slots != 0) {
            found = atomicCAS(hot + hot_of(hash), EMPTY, key);
            if (found == EMPTY || found == key) {
                return hot_of(hash) * WARP + threadIdx.x % WARP;
            }
        }
        if (shape.plain_slots != 0) {
            for (u32 slot = plain_of(hash); slot < plain_of(hash) + WINDOW; slot++) {
                found = atomicCAS(plain + slot, EMPTY, key);
                if (found == EMPTY || found == key) {
                    return shape.first_plain() + slot;
                }
            }
        }
        return UNKNOWN;
    }

    // The place of a row whose search read `found` in a slot with place `there`.
    static __device__ __forceinline__ u32 settle(Key found, Key key, u32 there) {
        return found == key ? there : found == EMPTY ? ABSENT : UNKNOWN;
    }

    // Places of hot keys for the rows whose place is UNKNOWN. The loads of all rows of a thread are issued before any
    // is used.
    __device__ __forceinline__ void find_hot(const Key (&key)[ROWS], const u32 (&hash)[ROWS], u32 (&place)[ROWS]) const {
        Key found[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            found[k] = hot[hot_of(hash[k])];
        }
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 settled = settle(found[k], key[k], hot_of(hash[k]) * WARP + threadIdx.x % WARP);
            place[k] = place[k] == NOWHERE ? NOWHERE : settled;
        }
    }

    // The place of the key that equals an empty slot.
    __device__ __forceinline__ void find_odd(const Key (&key)[ROWS], u32 (&place)[ROWS]) const {
        bool is_odd = false;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            is_odd = is_odd || key[k] == EMPTY;
        }
        if (is_odd) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (key[k] == EMPTY && place[k] != NOWHERE) {
                    place[k] = shape.hot_slots * WARP + threadIdx.x % WARP;
                    *odd = 1;
                }
            }
        }
    }

    // Places of plain keys for the rows whose place is UNKNOWN. A pair's second slot is filled after its first.
    __device__ __forceinline__ void find_plain(const Key (&key)[ROWS], const u32 (&hash)[ROWS], u32 (&place)[ROWS]) const {
#pragma unroll 1
        for (u32 probe = 0; probe < WINDOW; probe += 2) {
            bool unknown = false;
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                unknown = unknown || place[k] == UNKNOWN;
            }
            if (!__any_sync(ALL_LANES, unknown)) {
                return;
            }
            Pair<Key> found[ROWS];
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                found[k] = {key[k], key[k]};
                if (place[k] == UNKNOWN) {
                    found[k] = *reinterpret_cast<const Pair<Key>*>(plain + plain_of(hash[k]) + probe);
                }
            }
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                const u32 there = shape.first_plain() + plain_of(hash[k]) + probe;
                const u32 settled = found[k].first == key[k] ? there : settle(found[k].second, key[k], there + 1);
                place[k] = place[k] == UNKNOWN ? settled : place[k];
            }
        }
    }

    __device__ __forceinline__ void find_places(const Key (&key)[ROWS], const u32 (&hash)[ROWS], u32 (&place)[ROWS]) const {
        if (shape.hot_slots != 0) {
            find_hot(key, hash, place);
        }
        find_odd(key, place);
        if (shape.plain_slots != 0) {
            find_plain(key, hash, place);
        }
    }

    // Keys that are new here, and keys without a free slot.
    __device__ __forceinline__ void find_elsewhere(const Key (&key)[ROWS], const u32 (&hash)[ROWS], u32 (&place)[ROWS]) const {
        bool elsewhere = false;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            elsewhere = elsewhere || place[k] == UNKNOWN || place[k] == ABSENT;
        }
        if (__any_sync(ALL_LANES, elsewhere)) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (place[k] == ABSENT) {
                    place[k] = claim(key[k], hash[k]);
                }
            }
            find_groups(key, hash, place);
        }
    }

    __device__ __forceinline__ void find_groups(const Key (&key)[ROWS], const u32 (&hash)[ROWS], u32 (&place)[ROWS]) const {
        typename Slots::Entry entry[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (place[k] == UNKNOWN) {
                entry[k] = Slots::peek(directory, Slots::home(directory, key[k], hash[k]));
            }
        }
        bool wanted[ROWS];
        bool any = false;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (place[k] == UNKNOWN) {
                const u32 group = Slots::number_in(entry[k], key[k]);
                place[k] = group == UNNUMBERED ? UNKNOWN : group | IN_GLOBAL;
            }
            wanted[k] = place[k] == UNKNOWN;
            any = any || wanted[k];
        }
        if (__any_sync(ALL_LANES, any)) {
            u32 group[ROWS];
            number_keys<Slots>(directory, key, hash, wanted, group);
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                // NO_GROUP is NOWHERE.
                place[k] = wanted[k] ? group[k] | IN_GLOBAL : place[k];
            }
        }
    }

    // The group of each lane's key if it is wanted; called by a whole warp.
    __device__ __forceinline__ u32 group_of(Key key, bool is_wanted) const {
        const Key keys[1] = {key};
        const u32 hashes[1] = {hash_of(key, directory.seed)};
        const bool wanted[1] = {is_wanted};
        u32 group[1];
        number_keys<Slots>(directory, keys, hashes, wanted, group);
        return group[0];
    }

    // Flushes the table to the groups: first the hot keys, a warp for each, then the plain keys, a thread for each.
    __device__ __forceinline__ void flush(const Accumulators& accumulators) const {
        const u32 lane = threadIdx.x % WARP;
        for (u32 h = threadIdx.x / WARP; h <= shape.hot_slots; h += blockDim.x / WARP) {
            const Key key = h < shape.hot_slots ? hot[h] : EMPTY;
            const bool taken = h < shape.hot_slots ? key != EMPTY : *odd != 0;
            const u32 group = __shfl_sync(ALL_LANES, group_of(key, taken && lane == 0), 0);
            if (group != NO_GROUP) {
                flush_hot(accumulators, shape.places(), h, group);
            }
        }
        for (u32 p = threadIdx.x; p - lane < shape.plain_slots; p += blockDim.x) {
            const Key key = p < shape.plain_slots ? plain[p] : EMPTY;
            const u32 group = group_of(key, key != EMPTY);
            if (group != NO_GROUP) {
                flush_plain(accumulators, shape.places(), shape.first_plain() + p, group);
            }
        }
    }
};
