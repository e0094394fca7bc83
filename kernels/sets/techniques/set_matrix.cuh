// Overlaps as a product of binary matrices on tensor cores (MM: [B] 6.2.2). The results are tested in registers: no
// matrix is written. Rows are those of set_bitmap_build.
#pragma once

#include "sets/techniques/set_mma.cuh"
#include "sets/set_tile.cuh"

// Words of a row in shared memory at a time, and the pitch of rows: with 20, the 4 words of 8 rows are in 32 different
// banks.
constexpr u32 DEPTH = 16;
constexpr u32 PITCH = DEPTH + 4;
// A product reads 4 words of each row.
constexpr u32 CHUNK = 4;
constexpr u32 PRODUCT = 8;

struct BitRows {
    alignas(16) u32 of[SIDE * PITCH];
};

// Rows first .. first + 128 of `rows`, words from .. from + DEPTH; beyond the ends zero. `words` is a multiple of 4.
__device__ __forceinline__ void load_rows(BitRows& tile, const u32* __restrict__ rows, u32 words, u32 first, u32 end, u32 from) {
    for (u32 i = threadIdx.x; i < SIDE * DEPTH / 4; i += BLOCK) {
        const u32 row = i / (DEPTH / 4), word = i % (DEPTH / 4) * 4;
        uint4 four = {};
        if (first + row < end && from + word < words) {
            four = *reinterpret_cast<const uint4*>(rows + u64(first + row) * words + from + word);
        }
        *reinterpret_cast<uint4*>(tile.of + row * PITCH + word) = four;
    }
}

// Sums of a warp's 64 x 32 pairs: 8 x 4 products; a lane has two neighbouring columns of each.
constexpr u32 WARP_ROWS = 64, WARP_COLUMNS = 32;
constexpr u32 ROW_PRODUCTS = WARP_ROWS / PRODUCT, COLUMN_PRODUCTS = WARP_COLUMNS / PRODUCT;
using Sums = u32[ROW_PRODUCTS][COLUMN_PRODUCTS][2];

// The word of each product's rows that the lane holds of a chunk.
template <u32 PRODUCTS>
__device__ __forceinline__ void read_words(u32 (&out)[PRODUCTS], const BitRows& tile, u32 first, u32 word) {
    const u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (u32 p = 0; p < PRODUCTS; p++) {
        out[p] = tile.of[(first + p * PRODUCT + lane / 4) * PITCH + word + lane % 4];
    }
}

// Bits as bytes, one bit of each byte of the words at a time: the order of bits does not matter, as it is the same on
// both sides.
struct ByBytes {
    static constexpr u32 WORDS = CHUNK;

    static __device__ __forceinline__ void add(Sums& sums, const BitRows& r, const BitRows& s, u32 row, u32 column, u32 word) {
        u32 a[ROW_PRODUCTS], b[COLUMN_PRODUCTS];
        read_words(a, r, row, word);
        read_words(b, s, column, word);
#pragma unroll
        for (u32 bit = 0; bit < 8; bit++) {
#pragma unroll
            for (u32 i = 0; i < ROW_PRODUCTS; i++) {
#pragma unroll
                for (u32 j = 0; j < COLUMN_PRODUCTS; j++) {
                    mma_bytes(sums[i][j], a[i] >> bit & 0x01010101u, b[j] >> bit & 0x01010101u);
                }
            }
        }
    }
};

// Common bits: two chunks, and two products' rows at a time.
struct ByAnd {
    static constexpr u32 WORDS = 2 * CHUNK;

    static __device__ __forceinline__ void add(Sums& sums, const BitRows& r, const BitRows& s, u32 row, u32 column, u32 word) {
        u32 a[2][ROW_PRODUCTS], b[2][COLUMN_PRODUCTS];
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            read_words(a[half], r, row, word + half * CHUNK);
            read_words(b[half], s, column, word + half * CHUNK);
        }
#pragma unroll
        for (u32 i = 0; i < ROW_PRODUCTS; i += 2) {
#pragma unroll
            for (u32 j = 0; j < COLUMN_PRODUCTS; j++) {
                mma_and(sums[i][j], sums[i + 1][j], {a[0][i], a[1][i]}, {a[0][i + 1], a[1][i + 1]}, {b[0][j], b[1][j]});
            }
        }
    }
};

// The matches of the block's 128 probe sets with the build sets of its slice.
template <typename By>
__device__ __forceinline__ void multiply(const Join& join, u32 words, const u32* __restrict__ probe_rows,
                                         const u32* __restrict__ build_rows, const u32* __restrict__ lo,
                                         const u32* __restrict__ hi) {
    __shared__ BitRows probe;
    __shared__ BitRows build;
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 row = warp % 2 * WARP_ROWS, column = warp / 2 * WARP_COLUMNS;
    each_build_tile(join, lo, hi, [&](const Tile& tile) {
        Sums sums = {};
        for (u32 from = 0; from < words; from += DEPTH) {
            load_rows(probe, probe_rows, words, tile.first_r, join.probe.n, from);
            load_rows(build, build_rows, words, tile.first_s, join.build.n, from);
            __syncthreads();
#pragma unroll 1
            for (u32 word = 0; word < DEPTH; word += By::WORDS) {
                By::add(sums, probe, build, row, column, word);
            }
            __syncthreads();
        }
        const auto row_of = [&](u32 i) { return row + i * PRODUCT + lane / 4; };
        const auto column_of = [&](u32 j) { return column + j / 2 * PRODUCT + lane % 4 * 2 + j % 2; };
        take_tile(join, tile, lo, hi, row_of, column_of, [&](u32 i, u32 j) { return sums[i][j / 2][j % 2]; });
    });
}

// The matches of all probe sets, each within its window lo .. hi of build sets. Rows have `words` words, a multiple of
// 4, and are aligned to 16 bytes.
// Bound: a bit product for each pair and element of the universe; tensor cores execute 1024 (bytes) or 8192 and more
// (bits) a cycle and multiprocessor. Launch: 256 threads, grid (a block for each 128 probe sets, at most 65,535 slices
// of the build sets: a block for each 128 of them, or a share of them).
#define MATRIX(name, by)                                                                                             \
    extern "C" __global__ void __launch_bounds__(BLOCK, 2) set_matrix_##name(                                        \
        const __grid_constant__ Join join, u32 words, const u32* __restrict__ probe_rows,                            \
        const u32* __restrict__ build_rows, const u32* __restrict__ lo, const u32* __restrict__ hi) {                \
        multiply<by>(join, words, probe_rows, build_rows, lo, hi);                                                   \
    }
