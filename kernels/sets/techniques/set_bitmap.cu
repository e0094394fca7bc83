// Dense bitmaps of a small universe: a row of 32-bit words for each set; bit e of a row stands for element e.
// Containment ends for a pair at the first word that rejects it; overlaps count bits of ANDs, tile by tile as a matrix
// product (BI, naive, and MM: [B] 6.2).
#include "sets/set_tile.cuh"

// ORs the sets' elements from `least` on into `rows` of `words` words each, which are zeroed first: element e is bit
// (e - least) & mask, so a mask below the universe folds rows.
// Bound: 4 bytes an element and a random atomic. Launch: 256 threads, a block for each 32 sets, 8 threads a set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_bitmap_build(const __grid_constant__ Sets sets, u32 words, u32 mask, u32 least, u32* rows) {
    constexpr u32 TEAM = 8;
    const u32 set = (blockIdx.x * BLOCK + threadIdx.x) / TEAM;
    if (set >= sets.n) {
        return;
    }
    const u32 end = sets.offsets[set + 1];
    for (u32 i = sets.offsets[set] + threadIdx.x % TEAM; i < end; i += TEAM) {
        if (sets.elements[i] < least) {
            continue;
        }
        const u32 element = (sets.elements[i] - least) & mask;
        atomicOr(&rows[u64(set) * words + element / 32], 1u << element % 32);
    }
}

// A tile is 8 x 8 pairs a thread, for 16 words of the universe at a time. Rows are stored word by word, so that a
// thread reads the words of four rows in one access.
constexpr u32 SIDE_THREADS = 16;
constexpr u32 DEPTH = 16;

struct BitTile {
    alignas(16) u32 of[DEPTH][SIDE];
};

// Rows first .. first + 128 of `rows`, words from .. from + DEPTH; beyond the ends zero.
__device__ __forceinline__ void load_bits(BitTile& tile, const u32* __restrict__ rows, u32 words, u32 first, u32 end, u32 from) {
    for (u32 i = threadIdx.x; i < SIDE * DEPTH; i += BLOCK) {
        const u32 row = i / DEPTH, word = i % DEPTH;
        tile.of[word][row] = first + row < end && from + word < words ? rows[u64(first + row) * words + from + word] : 0;
    }
}

// The row, of the 128 in a tile, of a thread's place `i`: two runs of four.
__device__ __forceinline__ u32 row_of(u32 thread, u32 i) {
    return i / 4 * (SIDE / 2) + thread * 4 + i % 4;
}

__device__ __forceinline__ void read_rows(u32 (&out)[EACH], const u32* line, u32 thread) {
#pragma unroll
    for (u32 i = 0; i < EACH; i += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(line + row_of(thread, i));
        out[i] = four.x;
        out[i + 1] = four.y;
        out[i + 2] = four.z;
        out[i + 3] = four.w;
    }
}

// The matches of all probe sets, each within its window lo .. hi of build sets, by counting the bits of ANDs.
// Bound: an AND, a bit count and an addition for each 32 elements of the universe a pair; 16 counts a cycle and
// multiprocessor: 3.7 T words/s. Launch: 256 threads, grid (a block for each 128 probe sets, at most 65,535 slices of
// the build sets: a block for each 128 of them, or a share of them).
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
set_bitmap_overlap(const __grid_constant__ Join join, u32 words, const u32* __restrict__ probe_rows,
                   const u32* __restrict__ build_rows, const u32* __restrict__ lo, const u32* __restrict__ hi) {
    __shared__ BitTile probe;
    __shared__ BitTile build;
    const u32 ty = threadIdx.x / SIDE_THREADS, tx = threadIdx.x % SIDE_THREADS;
    each_build_tile(join, lo, hi, [&](const Tile& tile) {
        u32 overlaps[EACH][EACH] = {};
        for (u32 from = 0; from < words; from += DEPTH) {
            load_bits(probe, probe_rows, words, tile.first_r, join.probe.n, from);
            load_bits(build, build_rows, words, tile.first_s, join.build.n, from);
            __syncthreads();
#pragma unroll 2
            for (u32 w = 0; w < DEPTH; w++) {
                u32 r[EACH], s[EACH];
                read_rows(r, probe.of[w], ty);
                read_rows(s, build.of[w], tx);
#pragma unroll
                for (u32 i = 0; i < EACH; i++) {
#pragma unroll
                    for (u32 j = 0; j < EACH; j++) {
                        overlaps[i][j] += __popc(r[i] & s[j]);
                    }
                }
            }
            __syncthreads();
        }
        take_tile(join, tile, lo, hi, [&](u32 i) { return row_of(ty, i); }, [&](u32 j) { return row_of(tx, j); },
                  [&](u32 i, u32 j) { return overlaps[i][j]; });
    });
}

// As set_bitmap_overlap for CONTAINED (`swapped` 0) and CONTAINS (1). The remaining pairs of a tile are tested after
// each 16 words, and the tile ends when none remains. Elements that the build side lacks are in no row, so sets that
// have one must be excluded by their windows, as in set_matches_windows.
// Bound: a logic instruction for each 32 elements a pair, up to the word at which the last pair of the tile is
// rejected. Launch: as set_bitmap_overlap.
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
set_bitmap_contained(const __grid_constant__ Join join, u32 swapped, u32 words, const u32* __restrict__ probe_rows,
                     const u32* __restrict__ build_rows, const u32* __restrict__ lo, const u32* __restrict__ hi) {
    __shared__ BitTile probe;
    __shared__ BitTile build;
    const u32 ty = threadIdx.x / SIDE_THREADS, tx = threadIdx.x % SIDE_THREADS;
    const u32 flip = swapped != 0 ? ~0u : 0;
    each_build_tile(join, lo, hi, [&](const Tile& tile) {
        u32 missing[EACH][EACH] = {};
        bool open = true;
        for (u32 from = 0; from < words && open; from += DEPTH) {
            load_bits(probe, probe_rows, words, tile.first_r, join.probe.n, from);
            load_bits(build, build_rows, words, tile.first_s, join.build.n, from);
            __syncthreads();
#pragma unroll 2
            for (u32 w = 0; w < DEPTH; w++) {
                u32 r[EACH], s[EACH];
                read_rows(r, probe.of[w], ty);
                read_rows(s, build.of[w], tx);
#pragma unroll
                for (u32 i = 0; i < EACH; i++) {
#pragma unroll
                    for (u32 j = 0; j < EACH; j++) {
                        // r & ~s, or with both flipped ~r & s.
                        missing[i][j] |= (r[i] ^ flip) & ~(s[j] ^ flip);
                    }
                }
            }
            bool any = false;
#pragma unroll
            for (u32 i = 0; i < EACH; i++) {
#pragma unroll
                for (u32 j = 0; j < EACH; j++) {
                    any |= missing[i][j] == 0;
                }
            }
            open = __syncthreads_or(any) != 0;
        }
        if (!open) {
            return;
        }
        // A pair without a missing element satisfies any need.
        take_tile(join, tile, lo, hi, [&](u32 i) { return row_of(ty, i); }, [&](u32 j) { return row_of(tx, j); },
                  [&](u32 i, u32 j) { return missing[i][j] == 0 ? NONE : 0; });
    });
}
