// Aggregation trees: partial aggregates of 16, 256, 4096, … positions, so that any range is aggregated in O(log n)
// steps without subtraction. Sums of floats add in exactly the host's order; an extreme is the least (key, row).
#pragma once

#include "shared/common.cuh"
#include "shared/tile.cuh"

constexpr u32 FAN_OUT = 16;

// Nodes of a level that a block computes.
constexpr u32 NODES = 64;

// Sums of values or nodes.
struct Sum {
    typedef f64 Value;
    static constexpr f64 zero = 0.0;
    const f64* values;
    __device__ f64 operator[](u32 i) const { return values[i]; }
    static __device__ f64 combine(f64 a, f64 b) { return a + b; }
};

// A key and its row; "no row" orders last.
struct Candidate {
    u64 key;
    u32 row;
};

// The least (key, row) of candidates or nodes.
struct Least {
    typedef Candidate Value;
    static constexpr Candidate zero = {~0ull, ~0u};
    const u64* keys;
    const u32* rows;
    __device__ Candidate operator[](u32 i) const { return {keys[i], rows[i]}; }
    static __device__ Candidate combine(Candidate a, Candidate b) {
        return b.key < a.key || (b.key == a.key && b.row < a.row) ? b : a;
    }
};

// Calls `store(node, fold)` for each 16 of the `n` values below. They pass through shared memory, with 16 values and
// one word of padding for each node, so that they are read in whole cache lines and folded in order.
template <typename Fold, typename Store>
__device__ __forceinline__ void fold_level(Fold below, u32 n, Store store) {
    typedef typename Fold::Value Value;
    __shared__ Value staged[NODES * (FAN_OUT + 1)];
    const u32 first = blockIdx.x * NODES * FAN_OUT;
    const u32 len = min(n - first, NODES * FAN_OUT);
    Value loaded[FAN_OUT];
#pragma unroll
    for (u32 k = 0; k < FAN_OUT; k++) {
        loaded[k] = below[first + min(k * NODES + threadIdx.x, len - 1)];
    }
#pragma unroll
    for (u32 k = 0; k < FAN_OUT; k++) {
        const u32 i = k * NODES + threadIdx.x;
        staged[i + i / FAN_OUT] = loaded[k];
    }
    __syncthreads();
    const u32 begin = threadIdx.x * FAN_OUT;
    if (begin < len) {
        Value fold = Fold::zero;
        for (u32 k = 0; k < min(len - begin, FAN_OUT); k++) {
            fold = Fold::combine(fold, staged[begin + threadIdx.x + k]);
        }
        store(blockIdx.x * NODES + threadIdx.x, fold);
    }
}

// The aggregate of positions `lo .. hi`: up along the left edge and the right edge, and across the last level, which
// has at most 16 nodes. `level(l)` is level `l` of `height`.
template <typename Fold, typename Level>
__device__ __forceinline__ typename Fold::Value fold_range(u32 height, u32 lo, u32 hi, Level level) {
    typename Fold::Value left = Fold::zero;
    typename Fold::Value right = Fold::zero;
    for (u32 l = 0; lo < hi; l++) {
        const Fold nodes = level(l);
        const bool last = l + 1 == height;
        while (lo < hi && (last || lo % FAN_OUT != 0)) {
            left = Fold::combine(left, nodes[lo++]);
        }
        while (lo < hi && hi % FAN_OUT != 0) {
            right = Fold::combine(nodes[--hi], right);
        }
        lo /= FAN_OUT;
        hi /= FAN_OUT;
    }
    return Fold::combine(left, right);
}

// One level of sums above `n` values or nodes. Bound: 8.5 bytes a value. Launch: blocks of 64, a block for each 1024
// values.
extern "C" __global__ void __launch_bounds__(NODES)
    fold_tree_level_f64(const f64* __restrict__ below, u32 n, f64* __restrict__ level) {
    fold_level(Sum{below}, n, [=](u32 node, f64 sum) { level[node] = sum; });
}

// The sum of each range, stored at its probe row; other rows keep their values. `levels` begins with the values
// themselves and ends with the first level of at most 16 nodes. Bound: 12 bytes and up to 30 nodes a level read for a
// range; neighbouring ranges share most nodes. Launch: blocks of 256, a thread for each range.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_tree_range_f64(const f64* const* __restrict__ levels, u32 height, const u32* __restrict__ lo,
                        const u32* __restrict__ hi, const u32* __restrict__ probe_rows, f64* __restrict__ out, u32 m) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < m) {
        out[probe_rows[i]] = fold_range<Sum>(height, lo[i], hi[i], [=](u32 l) { return Sum{levels[l]}; });
    }
}

// Keys and rows in build order; keys are inverted if the greatest is wanted (`invert` not 0), and rows that are not
// valid become "no row". Bound: 4 bytes and one random key and bit read, 12 bytes written a row. Launch: blocks of 256,
// a block for each 1024 rows; `valid` may be null.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_extreme_in_order(const u64* __restrict__ keys, const u32* __restrict__ valid, const u32* __restrict__ rows,
                          u32 invert, u64* __restrict__ out_key, u32* __restrict__ out_row, u32 n) {
    each_row(
        n,
        [=](u32 i) {
            const u32 row = rows[i];
            const u64 key = keys[row];
            return bit_at(valid, row) ? Candidate{invert != 0 ? ~key : key, row} : Least::zero;
        },
        [=](u32 i, Candidate candidate) {
            out_key[i] = candidate.key;
            out_row[i] = candidate.row;
        });
}

// One level of least candidates above `n`. Bound: 12.75 bytes a candidate. Launch: blocks of 64, a block for each 1024
// candidates.
extern "C" __global__ void __launch_bounds__(NODES)
    fold_tree_level_extreme(const u64* __restrict__ keys, const u32* __restrict__ rows, u32 n,
                            u64* __restrict__ level_keys, u32* __restrict__ level_rows) {
    fold_level(Least{keys, rows}, n, [=](u32 node, Candidate least) {
        level_keys[node] = least.key;
        level_rows[node] = least.row;
    });
}

// The row of the least candidate of each range, stored at its probe row, or u32::MAX if there is none; other rows keep
// their values. Levels, bound and launch as for sums.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_tree_range_extreme(const u64* const* __restrict__ key_levels, const u32* const* __restrict__ row_levels,
                            u32 height, const u32* __restrict__ lo, const u32* __restrict__ hi,
                            const u32* __restrict__ probe_rows, u32* __restrict__ out, u32 m) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < m) {
        const auto level = [=](u32 l) { return Least{key_levels[l], row_levels[l]}; };
        out[probe_rows[i]] = fold_range<Least>(height, lo[i], hi[i], level).row;
    }
}
