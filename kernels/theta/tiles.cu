// For each row, the number of columns that satisfy a predicate with it, by brute force on order keys.
//
// A mask says which orders of (row's key, column's key) satisfy a comparison: 1 for `<`, 2 for `=`, 4 for `>`, or a sum
// of these.
#include "theta/tiles_strip.cuh"

// A counter up to 2^23, kept as a float. Sums of the least positive float are exact, and their bits count like an
// integer. Integer additions would compete with the comparisons for a unit; float additions do not.
struct Tally {
    float sum = 0;

    __device__ __forceinline__ void add_if(bool passes) {
        if (passes) {
            sum += __uint_as_float(1);
        }
    }
    __device__ __forceinline__ u32 count() const { return __float_as_uint(sum); }
};

// Counts the columns that satisfy the predicate with each row of the thread.
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

// Row counts of the block's slice; the counts of several slices are added up.
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

// For each of n rows (probe positions) the number of m columns (build positions) that satisfy all comparisons of the
// predicate, whose keys are stored one array after another. With several slices `counts` is zeroed first.
// Bound: 2 comparisons (1 where a strip's keys are close together) for each conjunct, and an addition, a pair; a
// multiprocessor executes 64 comparisons a cycle. Launch: 256 threads, grid (a block for each 2048 rows, slices of the
// columns): enough slices for about 16 blocks a multiprocessor, each of at least 4096 columns.
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
