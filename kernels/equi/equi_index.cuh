// Look-ups in an index of the whole build side in device memory: a hash table or an array.
//
// An index has `first(key)`, the first load of a look-up, and `resolve(key, loaded)`, the build row with the key or
// NONE. The first loads of several keys are in flight together.
#pragma once

#include "equi/equi_emit.cuh"
#include "equi/equi_hash.cuh"

// Look-ups in flight for each thread: enough to hide the latency of memory, at 2048 threads a multiprocessor.
constexpr u32 PROBE_ITEMS = 4;
constexpr u32 PROBE_ROWS = BLOCK * PROBE_ITEMS;

// An array of rows by key - least.
template <class Key>
struct ArrayIndex {
    const u32* rows;
    Key least;
    u32 range;

    __device__ __forceinline__ u32 first(Key key) const {
        const Key place = key - least;
        return place < range ? rows[place] : NONE;
    }

    __device__ __forceinline__ u32 resolve(Key, u32 row) const { return row; }
};

// An empty slot: a row is never 2^32 - 1.
constexpr u64 EMPTY_SLOT = ~0ull;

// A key is at most this number of slots behind its home. In a half empty table of 2^32 slots the farthest of keys that were not made to
// collide is some hundred slots away. Keys that were made for it would take a time quadratic in their number.
constexpr u32 MOST_STEPS = 1024;

// Open addressing with linear probing. A slot has a row in its low 32 bits and 32 bits of the key above: the whole key
// if it has 32 bits, otherwise the highest bits of the mixed key, after which the build side's key is compared.
template <class Key>
struct SlotIndex {
    u64* slots;
    u32 mask;
    const Key* build_keys;

    static constexpr bool WHOLE = sizeof(Key) == 4;

    static __device__ __forceinline__ u32 tag(Key key) {
        if constexpr (WHOLE) {
            return key;
        } else {
            return u32(mix(key) >> 32);
        }
    }

    __device__ __forceinline__ u32 home(Key key) const { return u32(mix(key)) & mask; }

    __device__ __forceinline__ bool holds(u64 slot, Key key) const {
        return u32(slot >> 32) == tag(key) && (WHOLE || build_keys[u32(slot)] == key);
    }

    __device__ __forceinline__ u64 first(Key key) const { return slots[home(key)]; }

    // The number of the slot of `key`, or NONE.
    __device__ __forceinline__ u32 slot_of(Key key, u64& slot) const {
        u32 at = home(key);
        for (u32 steps = 0; slot != EMPTY_SLOT && !holds(slot, key); steps++) {
            if (steps == MOST_STEPS) {
                return NONE;
            }
            at = (at + 1) & mask;
            slot = slots[at];
        }
        return slot == EMPTY_SLOT ? NONE : at;
    }

    __device__ __forceinline__ u32 resolve(Key key, u64 slot) const {
        return slot_of(key, slot) == NONE ? NONE : u32(slot);
    }
};

// The same, but the result is the number of the slot: the group of all build rows with the key.
template <class Key>
struct SlotNumbers : SlotIndex<Key> {
    __device__ __forceinline__ u32 resolve(Key key, u64 slot) const { return this->slot_of(key, slot); }
};

// The place in an array by key - least, without a look at the array.
template <class Key>
struct ArrayPlaces {
    Key least;
    u32 range;

    __device__ __forceinline__ u32 first(Key key) const {
        const Key place = key - least;
        return place < range ? u32(place) : NONE;
    }

    __device__ __forceinline__ u32 resolve(Key, u32 place) const { return place; }
};

// The results of the `k`-th row of this thread in its block's tile, for all k.
template <class Key, class Index>
__device__ __forceinline__ void look_up(const Index& index, const Key* keys, const u32* valid, u32 n,
                                        Key (&key)[PROBE_ITEMS], u32 (&found)[PROBE_ITEMS]) {
    const u32 begin = warp_first(blockIdx.x) + threadIdx.x % WARP;
    decltype(index.first(Key{})) loaded[PROBE_ITEMS];
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        key[k] = keys[min(begin + k * WARP, n - 1)];
    }
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        loaded[k] = index.first(key[k]);
    }
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        const u32 i = begin + k * WARP;
        found[k] = i < n && bit_at(valid, i) ? index.resolve(key[k], loaded[k]) : NONE;
    }
}

// out[i] = the result of the look-up of row i; NONE for a row that is not valid.
template <class Key, class Index>
__device__ __forceinline__ void probe_rows(const Index& index, const Key* keys, const u32* valid, u32 n, u32* out) {
    Key key[PROBE_ITEMS];
    u32 found[PROBE_ITEMS];
    look_up(index, keys, valid, n, key, found);
    const u32 begin = warp_first(blockIdx.x) + threadIdx.x % WARP;
#pragma unroll
    for (u32 k = 0; k < PROBE_ITEMS; k++) {
        if (begin + k * WARP < n) {
            out[begin + k * WARP] = found[k];
        }
    }
}

// Input and output columns of a join by an index.
template <class Key>
struct JoinOutput {
    const Column* build_columns;
    u32 build_count;
    const Column* probe_columns;
    u32 probe_count;
    Key* keys;
    u64 room;
    u64* written;
    u32* status;
};

// The build row that each item matched, and the output position.
struct IndexHits {
    u32 found[PROBE_ITEMS];
    u32 places[PROBE_ITEMS];

    __device__ __forceinline__ bool has(u32 k) const { return found[k] != NONE; }
    __device__ __forceinline__ u32 place(u32 k) const { return places[k]; }
};

template <typename Row>
__device__ __forceinline__ void write_columns(
    const Column* columns, u32 count, const IndexHits& hits, u64 first, Row row) {
#pragma unroll 1
    for (u32 c = 0; c < count; c++) {
        const Column column = columns[c];
        if (column.in == nullptr) {
            write_column<PROBE_ITEMS>(hits, static_cast<u32*>(column.out) + first, row);
            continue;
        }
        with_width(column, [&](auto value) {
            using Value = decltype(value);
            const Value* const in = static_cast<const Value*>(column.in);
            write_column<PROBE_ITEMS>(hits, static_cast<Value*>(column.out) + first, [&](u32 k) { return in[row(k)]; });
        });
    }
}

// The inner join of the tile's rows with their build rows, materialised. A column that is null stands for row numbers.
template <class Key, class Index>
__device__ __forceinline__ void join_rows(const Index& index, const Key* keys, const u32* valid, u32 n,
                                          const JoinOutput<Key>& output) {
    __shared__ Places<BLOCK / WARP> places;
    Key key[PROBE_ITEMS];
    IndexHits hits;
    look_up(index, keys, valid, n, key, hits.found);
    u64 first;
    if (!places.take(hits.found, output.room, output.written, output.status, first,
                     [&](u32 k, u32 place) { hits.places[k] = place; })) {
        return;
    }
    if (output.keys != nullptr) {
        write_column<PROBE_ITEMS>(hits, output.keys + first, [&](u32 k) { return key[k]; });
    }
    const u32 begin = warp_first(blockIdx.x) + threadIdx.x % WARP;
    write_columns(output.probe_columns, output.probe_count, hits, first, [=](u32 k) { return begin + k * WARP; });
    write_columns(output.build_columns, output.build_count, hits, first, [&](u32 k) { return hits.found[k]; });
}

__device__ __forceinline__ bool is_reported(u32 bit, const u32* status) {
    return (*static_cast<const volatile u32*>(status) & bit) != 0;
}

// Reports a `bit` of *status if `is_so`. Most threads that detect it find it reported already.
__device__ __forceinline__ void report(bool is_so, u32 bit, u32* status) {
    if (is_so && !is_reported(bit, status)) {
        atomicOr(status, bit);
    }
}
