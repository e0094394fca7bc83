// Aggregates over a join without its matches: values weighted by match counts, values in build order, and differences
// of their prefix sums. Trees and whole columns are in the two included files. CPU counterpart:
// src/device/host/theta/range_fold.rs.
#include "shared/common.cuh"
#include "theta/fold_column.cuh"
#include "theta/fold_tree.cuh"
#include "shared/tile.cuh"

// Sums wrap, so one kernel serves signed and unsigned integers and decimals of a width. Weights are widened to the
// value's type.
template <typename T>
__device__ __forceinline__ void weigh(const T* values, const u32* valid, const u32* weights, T* out, u32* out_valid,
                                      u32 n) {
    each_row(n, [=](u32 i) { return values[i] * (T)weights[i]; }, [=](u32 i, T product) { out[i] = product; });
    // Reads the weights a second time, from the cache.
    each_word(
        n, [=](u32 i) { return (weights[i] != 0) & bit_at(valid, i); },
        [=](u32 w, u32 word) { out_valid[w] = word; });
}

// `values[i] * weights[i]`; valid where the value is and the weight is not 0. Bound: one value and 4 bytes read, one
// value written a row. Launch: blocks of 256, a block for each 1024 rows; `valid` may be null.
#define WEIGH(name, T)                                                                                         \
    extern "C" __global__ void __launch_bounds__(BLOCK) fold_weigh_##name(                                     \
        const T* __restrict__ values, const u32* __restrict__ valid, const u32* __restrict__ weights,          \
        T* __restrict__ out, u32* __restrict__ out_valid, u32 n) {                                             \
        weigh(values, valid, weights, out, out_valid, n);                                                      \
    }

WEIGH(i32, u32)
WEIGH(i64, u64)
WEIGH(i128, u128)
WEIGH(f64, f64)

// The weights of the valid rows, 0 for others. Bound: 4 bytes read and 8 written a row. Launch: blocks of 256, a block
// for each 1024 rows; `valid` may be null.
extern "C" __global__ void __launch_bounds__(BLOCK) fold_weigh_count(const u32* __restrict__ valid,
                                                                     const u32* __restrict__ weights,
                                                                     i64* __restrict__ out, u32 n) {
    each_row(
        n, [=](u32 i) { return bit_at(valid, i) ? weights[i] : 0; }, [=](u32 i, u32 count) { out[i] = count; });
}

// `values[rows[i]]`, zero where not valid. Bound: 4 bytes and one random value and bit read, one value written a row.
// Launch: blocks of 256, a block for each 1024 rows; `valid` may be null.
#define IN_ORDER(name, T)                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                        \
        fold_in_order_##name(const T* __restrict__ values, const u32* __restrict__ valid,                      \
                             const u32* __restrict__ rows, T* __restrict__ out, u32 n) {                       \
        each_row(                                                                                              \
            n,                                                                                                 \
            [=](u32 i) {                                                                                       \
                const u32 row = rows[i];                                                                       \
                const T value = values[row];                                                                   \
                return bit_at(valid, row) ? value : (T)0;                                                      \
            },                                                                                                 \
            [=](u32 i, T value) { out[i] = value; });                                                          \
    }

IN_ORDER(i32, u32)
IN_ORDER(i64, u64)
IN_ORDER(i128, u128)
IN_ORDER(f64, f64)

// 1 where row `rows[i]` is valid, otherwise 0. Bound: 4 bytes and one random bit read, 4 bytes written a row. Launch:
// blocks of 256, a block for each 1024 rows; `valid` may be null.
extern "C" __global__ void __launch_bounds__(BLOCK) fold_valid_in_order(const u32* __restrict__ valid,
                                                                        const u32* __restrict__ rows,
                                                                        u32* __restrict__ out, u32 n) {
    each_row(n, [=](u32 i) -> u32 { return bit_at(valid, rows[i]); }, [=](u32 i, u32 bit) { out[i] = bit; });
}

// The sum of each range, a difference of prefix sums, stored at its probe row; other rows keep their values. Bound: 12
// bytes and two prefix sums read, one value written at random a range. Launch: blocks of 256, a block for each 1024
// ranges.
#define RANGE(name, T)                                                                                         \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                        \
        fold_range_##name(const T* __restrict__ prefix, const u32* __restrict__ lo, const u32* __restrict__ hi, \
                          const u32* __restrict__ probe_rows, T* __restrict__ out, u32 m) {                    \
        each_row(                                                                                              \
            m, [=](u32 i) { return Placed<T>{prefix[hi[i]] - prefix[lo[i]], probe_rows[i]}; },                 \
            [=](u32, Placed<T> sum) { out[sum.row] = sum.value; });                                            \
    }

RANGE(i32, u32)
RANGE(i64, u64)
RANGE(i128, u128)

// The number of values of each range that are not NULL, stored at its probe row, and a bit there if it is not 0.
// `prefix` counts valid values in build order; null: all are valid. `some_bits` may be null. Bound and launch as for
// the sums.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_range_count(const u32* __restrict__ prefix, const u32* __restrict__ lo, const u32* __restrict__ hi,
                     const u32* __restrict__ probe_rows, i64* __restrict__ out, u32* __restrict__ some_bits, u32 m) {
    each_row(
        m,
        [=](u32 i) {
            const u32 count = prefix == nullptr ? hi[i] - lo[i] : prefix[hi[i]] - prefix[lo[i]];
            return Placed<u32>{count, probe_rows[i]};
        },
        [=](u32, Placed<u32> count) {
            out[count.row] = count.value;
            if (some_bits != nullptr && count.value > 0) {
                atomicOr(some_bits + count.row / 32, 1u << count.row % 32);
            }
        });
}

__device__ __forceinline__ void add_at(u32* at, u32 value) { atomicAdd(at, value); }
__device__ __forceinline__ void add_at(u64* at, u64 value) { atomicAdd(at, value); }
__device__ __forceinline__ void add_at(u128* at, u128 value) {
    u64* halves = (u64*)at;
    const u64 low = (u64)value;
    // Each addition propagates its own carry, so their order does not matter.
    const u64 carry = atomicAdd(halves, low) > ~low;
    atomicAdd(halves + 1, (u64)(value >> 64) + carry);
}

// The difference array of sums over covers: the value of each range's probe row is added where the range begins, and
// subtracted where it ends. Rows that are not valid add nothing. `steps` has one more word than there are build
// positions, all 0. Bound: 12 bytes and a random value and bit read, two words updated at random a range. Launch: blocks
// of 256, a block for each 1024 ranges; `valid` may be null.
#define COVER(name, T)                                                                                         \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                        \
        fold_cover_steps_##name(const T* __restrict__ values, const u32* __restrict__ valid,                   \
                                const u32* __restrict__ lo, const u32* __restrict__ hi,                        \
                                const u32* __restrict__ probe_rows, T* __restrict__ steps, u32 m) {            \
        each_row(                                                                                              \
            m,                                                                                                 \
            [=](u32 i) {                                                                                       \
                const u32 row = probe_rows[i];                                                                 \
                return bit_at(valid, row) ? values[row] : (T)0;                                                \
            },                                                                                                 \
            [=](u32 i, T value) {                                                                              \
                if (lo[i] < hi[i] && value != 0) {                                                             \
                    add_at(steps + lo[i], value);                                                              \
                    add_at(steps + hi[i], (T)0 - value);                                                       \
                }                                                                                              \
            });                                                                                                \
    }

COVER(i32, u32)
COVER(i64, u64)
COVER(i128, u128)

// The same for counts: each range whose probe row is valid adds 1.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fold_cover_steps_count(const u32* __restrict__ valid, const u32* __restrict__ lo, const u32* __restrict__ hi,
                           const u32* __restrict__ probe_rows, u32* __restrict__ steps, u32 m) {
    each_row(
        m, [=](u32 i) -> u32 { return bit_at(valid, probe_rows[i]); },
        [=](u32 i, u32 bit) {
            if (lo[i] < hi[i] && bit != 0) {
                atomicAdd(steps + lo[i], 1u);
                atomicAdd(steps + hi[i], ~0u);
            }
        });
}
