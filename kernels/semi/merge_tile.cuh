// A tile of two presorted sides: consecutive rows of both, and their keys in a block's registers.
//
// Keys are read in units of 16 bytes, from the unit of the first row to the unit of the last. Every warp has units of
// one side only, so the probe side's units begin after the last warp of the build side.
#pragma once

#include "shared/tile.cuh"

// Keys of a side descend, or build keys that must be unique have duplicates: the output is invalid.
constexpr u32 NOT_ASCENDING = 1;

// Units of a thread.
constexpr u32 UNITS = 4;
// Units for a tile's rows. Of the block's units, 31 may be unused between the sides; each side may begin and end within
// a unit, and has one more build row.
constexpr u32 TILE_UNITS = UNITS * BLOCK - 36;

template <class Key>
constexpr u32 UNIT_KEYS = 16 / sizeof(Key);

// Rows of both sides together.
template <class Key>
constexpr u32 TILE_ROWS = TILE_UNITS * UNIT_KEYS<Key>;

// 16 bytes of keys.
template <class Key>
struct alignas(16) Unit {
    Key keys[UNIT_KEYS<Key>];
};

// The sorted keys of one side.
template <class Key>
struct Side {
    const Key* keys;
    u32 rows;
};

// The units of one side.
template <class Key>
struct TileSide {
    const Key* keys;
    // The index of the first unit in the whole column.
    u32 first;
    // The number of rows of the column from there on.
    u32 rows;
    u32 units;

    __device__ __forceinline__ TileSide(const Side<Key>& side, u32 begin, u32 end)
        : first(begin / UNIT_KEYS<Key> * UNIT_KEYS<Key>) {
        keys = side.keys + first;
        rows = side.rows - first;
        units = (end - first + UNIT_KEYS<Key> - 1) / UNIT_KEYS<Key>;
    }

    // Units that are completely inside the column.
    __device__ __forceinline__ u32 full() const { return min(units, rows / UNIT_KEYS<Key>); }

    __device__ __forceinline__ Key last() const { return keys[min(units * UNIT_KEYS<Key>, rows) - 1]; }

    // Whether the keys after the last full unit do not ascend. Each of the first threads tests one row.
    template <bool UNIQUE>
    __device__ __forceinline__ bool end_falls() const;
};

// Whether a key is less than its predecessor, or equal to it where keys must be unique.
template <bool UNIQUE, class Key>
__device__ __forceinline__ bool falls(Key before, Key key) {
    return UNIQUE ? before >= key : before > key;
}

// Whether this holds for any key within a unit.
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
