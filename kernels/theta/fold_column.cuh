// Aggregates of whole columns, without groups: one read of the column, one result.
#pragma once

#include <cub/block/block_reduce.cuh>

#include "shared/common.cuh"
#include "shared/tile.cuh"

// A sum of values, and the number of rows that have them.
template <typename T>
struct Total {
    T sum;
    u64 rows;
};

struct Add {
    template <typename T>
    __device__ Total<T> operator()(const Total<T>& a, const Total<T>& b) const {
        return {a.sum + b.sum, a.rows + b.rows};
    }
};

// The total of this thread's row.
template <typename T>
__device__ __forceinline__ Total<T> total_of(T value, bool valid) {
    return {valid ? value : (T)0, valid};
}

// Totals of the rows in this block's tiles; its first thread gets the result. The order of additions depends only on
// `n` and the grid.
template <typename T, typename Load>
__device__ __forceinline__ Total<T> block_total(u32 n, Load load) {
    using Reduce = cub::BlockReduce<Total<T>, BLOCK>;
    __shared__ typename Reduce::TempStorage scratch;
    Total<T> mine = {};
    each_row_in_turn(n, load, [&](u32, Total<T> row) { mine = Add()(mine, row); });
    return Reduce(scratch).Reduce(mine, Add());
}

// Adds the wrapping sum of the valid values to `out[0]`, and their number to `out[1]`. Bound: 8 bytes read a row.
// Launch: blocks of 256, a grid of any size (up to 1024 blocks are useful); `valid` may be null.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_sum_i64(const u64* __restrict__ values, const u32* __restrict__ valid, u64* __restrict__ out, u32 n) {
    const auto all = block_total<u64>(n, [=](u32 i) { return total_of(values[i], bit_at(valid, i)); });
    if (threadIdx.x == 0) {
        atomicAdd(out, all.sum);
        atomicAdd(out + 1, all.rows);
    }
}

// As above for 128-bit values: the halves of the sum are in `out[0]` and `out[1]`, the number in `out[2]`. Bound: 16
// bytes read a row; values are aligned to 16.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_sum_i128(const u128* __restrict__ values, const u32* __restrict__ valid, u64* __restrict__ out, u32 n) {
    const auto all = block_total<u128>(n, [=](u32 i) { return total_of(values[i], bit_at(valid, i)); });
    if (threadIdx.x == 0) {
        const u64 low = (u64)all.sum;
        // Each addition propagates its own carry, so their order does not matter.
        const u64 carry = atomicAdd(out, low) > ~low;
        atomicAdd(out + 1, (u64)(all.sum >> 64) + carry);
        atomicAdd(out + 2, all.rows);
    }
}

// Sum and number of the valid values of each block. The same grid gives the same bits on every card. Bound: 8 bytes
// read a row. Launch: 1024 blocks of 256, whatever `n` is; `valid` may be null.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_sum_f64(const f64* __restrict__ values, const u32* __restrict__ valid, f64* __restrict__ block_sums,
                 u64* __restrict__ block_rows, u32 n) {
    const auto all = block_total<f64>(n, [=](u32 i) { return total_of(values[i], bit_at(valid, i)); });
    if (threadIdx.x == 0) {
        block_sums[blockIdx.x] = all.sum;
        block_rows[blockIdx.x] = all.rows;
    }
}

// The totals of `n` blocks of the previous launch. Launch: one block of 256.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_sum_f64_total(const f64* __restrict__ block_sums, const u64* __restrict__ block_rows, f64* __restrict__ sum,
                       u64* __restrict__ rows, u32 n) {
    const auto all = block_total<f64>(n, [=](u32 i) { return Total<f64>{block_sums[i], block_rows[i]}; });
    if (threadIdx.x == 0) {
        *sum = all.sum;
        *rows = all.rows;
    }
}
