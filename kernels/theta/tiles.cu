// Counts, for each row, of the columns that pass a predicate with it, by brute force on order keys.
//
// A mask says which orders of (row's key, column's key) pass: 1 for `<`, 2 for `=`, 4 for `>`, or several.
#include "theta/tiles_strip.cuh"

// A counter of up to 2^23. Sums of the least positive float are exact, and their bits count like an integer: additions of
// integers would wait for the unit that compares, those of floats do not.
struct Tally {
    float sum = 0;

    __device__ __forceinline__ void add_if(bool passes) {
        if (passes) {
            sum += __uint_as_float(1);
        }
    }
    __device__ __forceinline__ u32 count() const { return __float_as_uint(sum); }
};

// Counts the columns that each row of the thread passes with.
struct CountRows {
    u32 counts[STRIP_ROWS] = {};
    Tally tallies[STRIP_ROWS];

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (u32 i = 0; i < STRIP_ROWS; i++) {
            tallies[i] = Tally();
        }
    }
    template <typename Passes>
    __device__ __forceinline__ void column(Passes passes) {
#pragma unroll
        for (u32 i = 0; i < STRIP_ROWS; i++) {
            tallies[i].add_if(passes(i));
        }
    }
    __device__ __forceinline__ void end() {
#pragma unroll
        for (u32 i = 0; i < STRIP_ROWS; i++) {
            counts[i] += tallies[i].count();
        }
    }
};

// Row counts of the block's slice; those of several slices are added up.
template <u32 CONJUNCTS>
__device__ __forceinline__ void add_row_counts(const Predicate<CONJUNCTS>& predicate, u32 n, u32 m, u32* counts) {
    CountRows sink;
    test_pairs(predicate, n, m, sink);
#pragma unroll
    for (u32 i = 0; i < STRIP_ROWS; i++) {
        const u32 row = row_at(i);
        if (row < n && gridDim.y == 1) {
            counts[row] = sink.counts[i];
        } else if (row < n && sink.counts[i] != 0) {
            atomicAdd(&counts[row], sink.counts[i]);
        }
    }
}

// For each of n rows (searching positions) how many of m columns (sorted ones) pass all comparisons of the predicate, which
// lie one after another. With several slices `counts` is zero before.
// Bound: 2 comparisons (1 where a strip's keys lie close together) for each conjunct and an addition a pair; a multiprocessor
// makes 64 comparisons a cycle. Launch: 256 threads, grid (a block for each 2048 rows, slices of the columns): as many slices
// as make about 16 blocks a multiprocessor, each of at least 4096 columns.
extern "C" __global__ void __launch_bounds__(BLOCK)
tiles_row_counts1_u64(const __grid_constant__ Predicate<1> predicate, u32 n, u32 m, u32* __restrict__ counts) {
    add_row_counts(predicate, n, m, counts);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
tiles_row_counts2_u64(const __grid_constant__ Predicate<2> predicate, u32 n, u32 m, u32* __restrict__ counts) {
    add_row_counts(predicate, n, m, counts);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
tiles_row_counts3_u64(const __grid_constant__ Predicate<3> predicate, u32 n, u32 m, u32* __restrict__ counts) {
    add_row_counts(predicate, n, m, counts);
}
