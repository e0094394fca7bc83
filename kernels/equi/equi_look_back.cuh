// Decoupled look-back (Merrill & Garland 2016): how tiles of a pass get the number of rows of each digit in earlier
// tiles.
#pragma once

#include "shared/tile.cuh"

constexpr u32 SPREAD_DIGITS = 256;

// A look-back word is a row count below one of two flags: the count of the tile alone, or of the tile and all tiles
// before it.
constexpr u32 COUNTED = 1u << 30;
constexpr u32 THROUGH = 1u << 31;
constexpr u32 ROWS_MASK = COUNTED - 1;

// Returns the number of rows of a digit in earlier tiles, and publishes the number including this tile. Reads several
// earlier tiles at once: when all tiles start together, it has to pass many.
__device__ __forceinline__ u32 look_back(u32* lookback, u32 tile, u32 digit, u32 count) {
    constexpr u32 WINDOW = 4;
    volatile u32* const words = lookback + digit;
    u32 before = 0;
    bool found = tile == 0;
    for (i32 last = i32(tile) - 1; !found; last -= i32(WINDOW)) {
        u32 window[WINDOW];
#pragma unroll
        for (i32 i = 0; i < i32(WINDOW); ++i) {
            window[i] = last >= i ? words[u32(last - i) * SPREAD_DIGITS] : u32(THROUGH);
        }
#pragma unroll
        for (i32 i = 0; i < i32(WINDOW); ++i) {
            while (window[i] == 0 && !found) {
                window[i] = words[u32(last - i) * SPREAD_DIGITS];
            }
            before += found ? 0 : window[i] & ROWS_MASK;
            found = found || (window[i] & THROUGH) != 0;
        }
    }
    words[tile * SPREAD_DIGITS] = (before + count) | THROUGH;
    return before;
}
