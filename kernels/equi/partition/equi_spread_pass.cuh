// The pass over all tiles, and its entry points.
#pragma once

#include "equi/partition/equi_spread.cuh"

// The values of a column of 4 bytes, or row numbers.
template <class Tile>
__device__ __forceinline__ void load_values(const Tile& tile, const Column& column, u32 first_row, u32 (&values)[SPREAD_ITEMS]) {
    const u32* const in = static_cast<const u32*>(column.in) + tile.begin;
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
        values[i] = column.in == nullptr ? first_row + tile.begin + tile.at(i) : tile.has(i) ? in[tile.at(i)] : 0;
    }
}

template <class Key, bool WHOLE>
__device__ __forceinline__ void spread_tile(SpreadStorage& s, const SpreadOrder& order, const Key* keys_in, bool mixed, u32 first_row,
                                            u32 n, Key* keys_out, const Column* columns, u32 column_count) {
    const u32 begin = s.tile * SPREAD_ROWS;
    SpreadTile<Key, WHOLE> tile{s, order, begin, WHOLE ? SPREAD_ROWS : n - begin, s.tile};
    Key keys[SPREAD_ITEMS];
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
        keys[i] = tile.has(i) ? keys_in[begin + tile.at(i)] : Key(0);
    }
    // A first column of 4 bytes moves together with keys of 4 bytes, each in one half of the area.
    const Column column = column_count > 0 ? columns[0] : Column{nullptr, nullptr, 0};
    const bool along = sizeof(Key) == 4 && column.width == 4;
    u32 values[SPREAD_ITEMS];
    if (along) {
        load_values(tile, column, first_row, values);
    } else if (column.in != nullptr) {
        prefetch_bytes(static_cast<const u8*>(column.in) + u64(begin) * column.width, tile.rows * u32(column.width), SPREAD_THREADS);
    }
    u32 least = 0, greatest = 0;
    if (order.ordered_bits > 0) {
        least = order.digit_before(keys_in[begin]);
        greatest = order.digit_before(keys_in[begin + tile.rows - 1]);
    }
    if (!mixed) {
#pragma unroll
        for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
            keys[i] = mix(keys[i]);
        }
    }
    if (least == greatest) {
        tile.rank_keys(keys);
    } else {
        tile.rank_keys_in_order(keys, least, greatest);
    }
    const u32 count = tile.place_digits();
    Key* const key_slots = reinterpret_cast<Key*>(s.area);
    u32* const value_slots = reinterpret_cast<u32*>(s.area) + SPREAD_ROWS;
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
        tile.ranks[i / 2] += s.places[order.digit(keys[i])] << i % 2 * 16;
    }
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
        if (tile.has(i)) {
            key_slots[tile.rank(i)] = keys[i];
        }
    }
    tile.find_offsets(count, begin + tile.rows == n);
    if (along) {
#pragma unroll
        for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
            if (tile.has(i)) {
                value_slots[tile.rank(i)] = values[i];
            }
        }
    }
    __syncthreads();
    // All reads come before the first write: the compiler cannot exclude that a column is in shared memory.
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
        keys[i] = tile.has(i) ? key_slots[tile.at(i)] : Key(0);
    }
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
        tile.digits[i / 4] |= order.digit(keys[i]) << i % 4 * 8;
    }
    u32 to[SPREAD_ITEMS];
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
        to[i] = tile.to(i);
    }
    if (along) {
#pragma unroll
        for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
            values[i] = tile.has(i) ? value_slots[tile.at(i)] : 0;
        }
    }
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
        if (tile.has(i)) {
            keys_out[to[i]] = keys[i];
        }
    }
    if (along) {
        u32* const out = static_cast<u32*>(column.out);
#pragma unroll
        for (u32 i = 0; i < SPREAD_ITEMS; ++i) {
            if (tile.has(i)) {
                out[to[i]] = values[i];
            }
        }
    }
    if (column_count > u32(along)) {
        __syncthreads();
        tile.half = 0;
        tile.move_columns(columns, along, column_count, first_row);
    }
}

template <class Key>
__device__ __forceinline__ void spread(const Key* keys_in, u32 mixed, u32 first_row, u32 n, Key* keys_out, const Column* columns,
                                       u32 column_count, const SpreadOrder& order, u32* next_tile) {
    __shared__ SpreadStorage s;
    if (threadIdx.x < SPREAD_DIGITS) {
        s.counts[threadIdx.x] = 0;
    }
    // Tiles are numbered as they begin, so that none waits for a tile that has not begun.
    if (threadIdx.x == 0) {
        s.tile = atomicAdd(next_tile, 1);
    }
    __syncthreads();
    if (s.tile * SPREAD_ROWS + SPREAD_ROWS <= n) {
        spread_tile<Key, true>(s, order, keys_in, mixed != 0, first_row, n, keys_out, columns, column_count);
    } else {
        spread_tile<Key, false>(s, order, keys_in, mixed != 0, first_row, n, keys_out, columns, column_count);
    }
}

// One pass of the partition of a join, as equi_part_pass_*, but rows of one digit come in any order, except that the
// order by the `ordered_bits` (0 to 8) bits just below the digit is kept: two passes make partitions of up to 16 bits.
// With ordered_bits 0 `lookback` may be null: the pass then advances `starts`, and further portions continue from
// there.
// Bound: a key and its columns' values read and written once. 140 G rows/s of 4 + 4 bytes are half of the bandwidth's
// limit (on an H200): more blocks or shorter tiles are slower, so the limit is the memory's throughput for runs of 90
// bytes. Launch: blocks of 512, one for each tile of 5632 rows, no dynamic shared memory; lookback[256 * tiles] and
// *next_tile are zeroed before each launch. Input and output do not overlap.
#define SPREAD(name, Key)                                                                                          \
    extern "C" __global__ void __launch_bounds__(SPREAD_THREADS, SPREAD_BLOCKS) equi_part_spread_##name(           \
        const Key* __restrict__ keys_in, u32 mixed, u32 first_row, u32 n, Key* __restrict__ keys_out,              \
        const Column* __restrict__ columns, u32 column_count, u32* starts, u32* next_starts, u32 first_bit,        \
        u32 bits, u32 ordered_bits, u32* lookback, u32* next_tile) {                                               \
        spread(keys_in, mixed, first_row, n, keys_out, columns, column_count,                                      \
               {first_bit, bits, ordered_bits, starts, next_starts, lookback}, next_tile);                         \
    }

SPREAD(u32, u32)
SPREAD(u64, u64)
