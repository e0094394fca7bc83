// Brute force over all pairs ([T] 4.3, 5.2): a block holds a strip of rows in registers and streams tiles of columns
// past it through shared memory. A thread tests 8 rows against each column that it reads.
//
// Every inequality is normalised to `row < column`, so that one loop serves all: keys are complemented for `>`, and for
// `<=` and `>=` one side is shifted by one. A strip whose row keys are close together is compared by 32-bit distances
// from a base, whatever the columns are: half the work. A test is one instruction for each 32 bits, which combines its
// predicate with that of the previous test.
#pragma once

#include "shared/tile.cuh"

constexpr u32 STRIP_ROWS = 8;
constexpr u32 STRIP = BLOCK * STRIP_ROWS;
constexpr u32 TILE_BYTES = 4096;

// The orders of (row's key, column's key) that satisfy a mask.
constexpr u32 LESS = 1, EQUAL = 2, GREATER = 4;

// One comparison of a row's key with a column's key.
struct Comparison {
    const u64* rows;
    const u64* columns;
    u32 mask;

    static constexpr u64 MAX = ~0ull;

    __device__ __forceinline__ u64 flip() const { return mask & GREATER ? MAX : 0; }

    // Normalised words: the comparison holds exactly when row(r) < column(c), if `is_less(r)`.
    __device__ __forceinline__ u64 row(u64 key) const { return (key ^ flip()) - (mask == (GREATER | EQUAL) ? 1 : 0); }
    __device__ __forceinline__ u64 column(u64 key) const {
        key ^= flip();
        return mask == (LESS | EQUAL) && key != MAX ? key + 1 : key;
    }
    __device__ __forceinline__ bool is_less(u64 row) const {
        const bool inequality = ((mask & LESS) != 0) != ((mask & GREATER) != 0);
        return inequality && ((mask & EQUAL) == 0 || row != MAX);
    }

    __device__ __forceinline__ bool holds(u64 row, u64 column) const {
        return (mask & (row < column ? LESS : row == column ? EQUAL : GREATER)) != 0;
    }
};

// The conjuncts of a predicate.
template <u32 CONJUNCTS>
struct Predicate {
    Comparison of[CONJUNCTS];
};

// The distance of a key above a base, clamped to 32 bits.
__device__ __forceinline__ u32 distance(u64 base, u64 key) {
    return key <= base ? 0 : u32(min(key - base, u64(~0u)));
}

// The columns of a tile, which fill 4096 bytes.
template <typename Word, u32 CONJUNCTS>
struct Columns {
    static constexpr u32 COUNT = TILE_BYTES / sizeof(Word);
    alignas(16) Word of[CONJUNCTS][COUNT];
};

// Columns that a thread reads in one access.
template <typename Word, u32 COUNT>
struct alignas(sizeof(Word) * COUNT) Read {
    Word of[COUNT];
};

// The row that the thread holds at place `i`.
__device__ __forceinline__ u32 row_at(u32 i) {
    return blockIdx.x * STRIP + i * BLOCK + threadIdx.x;
}

// Streams the block's part of `m` columns (slice `blockIdx.y` of `gridDim.y`) past its strip of rows. `row_word` and
// `column_word` give the words of a conjunct, `compare` tests two of them. `LESS_ONLY`: `compare` is `<`, so rows and
// columns past the ends, which are MAX and 0, match nothing. For each tile the sink gets `begin()`, then
// `column(passes)` for every column, where `passes(i)` tests it against the thread's row `i`, then `end()`.
template <typename Word, u32 CONJUNCTS, bool LESS_ONLY, typename RowWord, typename ColumnWord, typename Compare,
          typename Sink>
__device__ __forceinline__ void slide(void* memory, u32 n, u32 m, RowWord row_word, ColumnWord column_word,
                                      Compare compare, Sink& sink) {
    using Tile = Columns<Word, CONJUNCTS>;
    // Reads of 16 bytes, as long as the predicates of all pairs in flight fit in the seven predicate registers.
    constexpr bool WIDE = LESS_ONLY && CONJUNCTS * sizeof(Word) < 24;
    constexpr u32 AT_ONCE = WIDE ? 16 / sizeof(Word) : 1;
    Tile& columns = *static_cast<Tile*>(memory);
    Word rows[CONJUNCTS][STRIP_ROWS];
#pragma unroll
    for (u32 c = 0; c < CONJUNCTS; c++) {
#pragma unroll
        for (u32 i = 0; i < STRIP_ROWS; i++) {
            rows[c][i] = row_at(i) < n ? row_word(c, row_at(i)) : ~Word(0);
        }
    }
    const u32 tiles = (m + Tile::COUNT - 1) / Tile::COUNT;
    const u32 share = (tiles + gridDim.y - 1) / gridDim.y;
    const u32 end = min((blockIdx.y + 1) * share, tiles);
    for (u32 tile = blockIdx.y * share; tile < end; tile++) {
        const u32 first = tile * Tile::COUNT;
        const u32 len = min(Tile::COUNT, m - first);
#pragma unroll
        for (u32 c = 0; c < CONJUNCTS; c++) {
#pragma unroll
            for (u32 k = 0; k < Tile::COUNT / BLOCK; k++) {
                const u32 place = k * BLOCK + threadIdx.x;
                columns.of[c][place] = place < len ? column_word(c, first + place) : 0;
            }
        }
        sink.begin();
        __syncthreads();
#pragma unroll 1
        for (u32 at = 0; at < len; at += AT_ONCE) {
            Read<Word, AT_ONCE> read[CONJUNCTS];
#pragma unroll
            for (u32 c = 0; c < CONJUNCTS; c++) {
                read[c] = *reinterpret_cast<const Read<Word, AT_ONCE>*>(&columns.of[c][at]);
            }
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++) {
                sink.column([&](u32 i) {
                    bool passes = LESS_ONLY || row_at(i) < n;
#pragma unroll
                    for (u32 c = 0; c < CONJUNCTS; c++) {
                        passes = passes & compare(c, rows[c][i], read[c].of[k]);
                    }
                    return passes;
                });
            }
        }
        sink.end();
        __syncthreads();
    }
}

// Selects the variant with the fewest instructions for the comparisons and the block's rows.
template <u32 CONJUNCTS, typename Sink>
__device__ __forceinline__ void test_pairs(const Predicate<CONJUNCTS>& predicate, u32 n, u32 m, Sink& sink) {
    __shared__ Columns<u64, CONJUNCTS> memory;
    const Comparison* const of = predicate.of;
    const auto row = [&](u32 c, u32 i) { return of[c].row(of[c].rows[i]); };
    const auto column = [&](u32 c, u32 i) { return of[c].column(of[c].columns[i]); };
    const auto less = [](u32, auto left, auto right) { return left < right; };

    // Bases such that the strip's rows are less than 2^32 - 1 above them. If such bases exist, one of them is near the
    // first row.
    constexpr u64 REACH = u64(1) << 31;
    u64 base[CONJUNCTS];
    bool all_less = true;
    bool all_near = true;
#pragma unroll
    for (u32 c = 0; c < CONJUNCTS; c++) {
        base[c] = max(row(c, blockIdx.x * STRIP), REACH) - REACH;
#pragma unroll
        for (u32 i = 0; i < STRIP_ROWS; i++) {
            const u32 at = min(row_at(i), n - 1);
            all_less = all_less && of[c].is_less(of[c].rows[at]);
            all_near = all_near && row(c, at) >= base[c] && row(c, at) - base[c] < u64(~0u);
        }
    }
    all_less = __syncthreads_and(all_less);
    all_near = __syncthreads_and(all_near);
    if (!all_less) {
        slide<u64, CONJUNCTS, false>(
            &memory, n, m, [&](u32 c, u32 i) { return of[c].rows[i]; }, [&](u32 c, u32 i) { return of[c].columns[i]; },
            [&](u32 c, u64 left, u64 right) { return of[c].holds(left, right); }, sink);
    } else if (all_near) {
        slide<u32, CONJUNCTS, true>(
            &memory, n, m, [&](u32 c, u32 i) { return distance(base[c], row(c, i)); },
            [&](u32 c, u32 i) { return distance(base[c], column(c, i)); }, less, sink);
    } else {
        slide<u64, CONJUNCTS, true>(&memory, n, m, row, column, less, sink);
    }
}
