// Row bitmaps: slices, combinations, and bitmaps from group ids. Bits past the end are always written as 0.
#pragma once

#include "shared/common.cuh"
#include "shared/tile.cuh"

// Bits `from .. from + len` of a bitmap, inverted if `invert` is not 0. Bound: two words for 32 rows. Launch: blocks of
// 256, a block for each 1024 words of the output.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_bits_slice(const u32* __restrict__ in, u32 from, u32 len, u32 invert, u32* __restrict__ out) {
    const u32 words = (len + 31) / 32;
    const u32 last = (from + len - 1) / 32;
    each_row(
        words,
        [=](u32 w) {
            const u32 at = from / 32 + w;
            return __funnelshift_r(in[at], in[min(at + 1, last)], from % 32);
        },
        [=](u32 w, u32 word) {
            const u32 used = w + 1 < words ? ALL_LANES : ALL_LANES >> (words * 32 - len);
            out[w] = (invert != 0 ? ~word : word) & used;
        });
}

// The AND of two bitmaps, of which at least one has no bits past its end. Bound: three words for 32 rows. Launch:
// blocks of 256, a block for each 1024 words.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_bits_and(const u32* __restrict__ a, const u32* __restrict__ b, u32* __restrict__ out, u32 words) {
    each_row(words, [=](u32 w) { return a[w] & b[w]; }, [=](u32 w, u32 word) { out[w] = word; });
}

// Which rows are in a group. Bound: 4 bytes read a row. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_bits_of_groups(const u32* __restrict__ groups, u32 n, u32* __restrict__ out_bits) {
    each_word(n, [=](u32 i) { return groups[i] != NO_GROUP; }, [=](u32 w, u32 word) { out_bits[w] = word; });
}

// Copies the `n` bits of a bitmap into `out` from bit `at` on, where `out` is zero; a null bitmap has all bits set.
// Bound: two words for 32 rows. Launch: blocks of 256, a block for each 1024 words of the input; `out` must be zeroed
// first.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_bits_place(const u32* __restrict__ in, u32 n, u32 at, u32* __restrict__ out) {
    const u32 words = (n + 31) / 32;
    const u32 shift = at % 32;
    each_row(
        words, [=](u32 w) { return in == nullptr ? ALL_LANES : in[w]; },
        [=](u32 w, u32 word) {
            const u32 used = w + 1 < words ? ALL_LANES : ALL_LANES >> (words * 32 - n);
            const u32 bits = word & used;
            const u32 low = bits << shift;
            const u32 high = shift == 0 ? 0 : bits >> (32 - shift);
            // Neighbouring words of the input share a word of the output; words at the ends are shared with other
            // bitmaps.
            if (low != 0) {
                atomicOr(&out[at / 32 + w], low);
            }
            if (high != 0) {
                atomicOr(&out[at / 32 + w + 1], high);
            }
        });
}

// The bitmaps of at most 32 columns.
struct Bitmaps {
    u32* of[WARP];
};

// Bit `c` of word `i` is bit `i` of bitmap `c`. Bound: 4 bytes written a row, and a bit read a column. Launch: blocks of 256,
// a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_bits_pack(const __grid_constant__ Bitmaps bitmaps, u32 columns, u32* __restrict__ out, u32 n) {
    each_row(
        n,
        [&](u32 i) {
            u32 word = 0;
            for (u32 c = 0; c < columns; c++) {
                word |= (u32)bit_at(bitmaps.of[c], i) << c;
            }
            return word;
        },
        [=](u32 i, u32 word) { out[i] = word; });
}

// The inverse: bit `i` of bitmap `c` is bit `c` of word `i`. Bound: 4 bytes read a row, and a bit written a column. Launch:
// blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    rows_bits_unpack(const u32* __restrict__ words, const __grid_constant__ Bitmaps bitmaps, u32 columns, u32 n) {
    const u32 first = warp_first(blockIdx.x);
    const u32 lane = threadIdx.x % WARP;
    u32 row[ITEMS];
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 i = first + k * WARP + lane;
        row[k] = i < n ? words[i] : 0;
    }
    const u32 word = first / WARP + lane;
    const bool stores = lane < ITEMS && word < (n + WARP - 1) / WARP;
    for (u32 c = 0; c < columns; c++) {
        u32 mine = 0;
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            const u32 bits = __ballot_sync(ALL_LANES, (row[k] >> c & 1) != 0);
            mine = lane == k ? bits : mine;
        }
        if (stores) {
            bitmaps.of[c][word] = mine;
        }
    }
}
