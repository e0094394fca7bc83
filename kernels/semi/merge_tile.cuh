// A tile of two sides whose keys ascend: rows that follow one another on both, and their keys in a block's registers.
//
// Keys are read in units of 16 bytes from the unit that the first row is in to the one that the last is in. Every warp has units of one
// side, so the probe side's begin after as many as fill the last warp of the build side's.
#pragma once

#include "shared/tile.cuh"

// Keys of a side fall, or build keys that must be unique are not: what was written is of no use.
constexpr u32 NOT_ASCENDING = 1;

// Units of a thread.
constexpr u32 UNITS = 4;
// Units that a tile's rows fill: of the block's, 31 may be left between the sides, and each side may begin and end within one, and has
// one more build row.
constexpr u32 TILE_UNITS = UNITS * BLOCK - 36;

template <class Key>
constexpr u32 UNIT_KEYS = 16 / sizeof(Key);

// Rows of both sides together.
template <class Key>
constexpr u32 TILE_ROWS = TILE_UNITS * UNIT_KEYS<Key>;

template <class Key>
struct alignas(16) Unit {
    Key keys[UNIT_KEYS<Key>];
};

template <class Key>
struct Side {
    const Key* keys;
    u32 rows;
};

// The units of one side.
template <class Key>
struct TileSide {
    const Key* keys;
    // Of the first unit on in the whole column.
    u32 first;
    // Rows of the column from there on.
    u32 rows;
    u32 units;

    __device__ __forceinline__ TileSide(const Side<Key>& side, u32 begin, u32 end)
        : first(begin / UNIT_KEYS<Key> * UNIT_KEYS<Key>) {
        keys = side.keys + first;
        rows = side.rows - first;
        units = (end - first + UNIT_KEYS<Key> - 1) / UNIT_KEYS<Key>;
    }

    // Units of which the column has all keys.
    __device__ __forceinline__ u32 full() const { return min(units, rows / UNIT_KEYS<Key>); }

    __device__ __forceinline__ Key last() const { return keys[min(units * UNIT_KEYS<Key>, rows) - 1]; }

    // Whether keys after the full units' do not ascend: a row for each of the first threads.
    template <bool UNIQUE>
    __device__ __forceinline__ bool end_falls() const;
};

// Whether a key falls below the one before it, or stays if it must not.
template <bool UNIQUE, class Key>
__device__ __forceinline__ bool falls(Key before, Key key) {
    return UNIQUE ? before >= key : before > key;
}

// Whether one of a unit's keys does.
template <bool UNIQUE, class Key>
__device__ __forceinline__ bool falls_within(const Unit<Key>& unit) {
    bool fell = false;
#pragma unroll
    for (u32 c = 1; c < UNIT_KEYS<Key>; c++) {
        fell |= falls<UNIQUE>(unit.keys[c - 1], unit.keys[c]);
    }
    return fell;
}

template <class Key>
template <bool UNIQUE>
__device__ __forceinline__ bool TileSide<Key>::end_falls() const {
    const u32 row = full() * UNIT_KEYS<Key> + threadIdx.x;
    if (full() == units || threadIdx.x >= UNIT_KEYS<Key> || row >= rows || first + row == 0) {
        return false;
    }
    return falls<UNIQUE>(keys[i32(row) - 1], keys[row]);
}
