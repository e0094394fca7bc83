// Order keys: values become `u64` words whose unsigned order is DataFusion's. CPU counterpart:
// src/device/host/keys/order_keys.rs.
#include <cub/block/block_reduce.cuh>

#include "shared/common.cuh"
#include "shared/tile.cuh"

constexpr u64 SIGN = 1ull << 63;
constexpr i128 I128_MIN = (i128)((u128)1 << 127);
constexpr i128 I128_MAX = ~I128_MIN;

// Rows of a block when one access moves two values.
constexpr u32 PAIRED_TILE = 2 * TILE;

template <typename T>
struct alignas(2 * sizeof(T)) Pair {
    T first, second;
};

__device__ __forceinline__ bool aligned(const void* p, u32 bytes) {
    return reinterpret_cast<u64>(p) % bytes == 0;
}

// `out[i] = word(values[i])`. A thread moves four pairs of values; at the end, and where pairs would not be aligned,
// single values.
template <typename T, typename Word>
__device__ __forceinline__ void keys_of(const T* values, u64* out, u32 n, Word word) {
    const u32 first = blockIdx.x * PAIRED_TILE;
    const bool whole = first + PAIRED_TILE <= n;
    if (whole && aligned(values + first, sizeof(Pair<T>)) && aligned(out + first, sizeof(Pair<u64>))) {
        const auto from = reinterpret_cast<const Pair<T>*>(values + first) + threadIdx.x;
        const auto to = reinterpret_cast<Pair<u64>*>(out + first) + threadIdx.x;
        Pair<T> loaded[ITEMS];
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            loaded[k] = from[k * BLOCK];
        }
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            to[k * BLOCK] = {word(loaded[k].first), word(loaded[k].second)};
        }
    } else {
        for (u32 i = first + threadIdx.x; i < min(first + PAIRED_TILE, n); i += BLOCK) {
            out[i] = word(values[i]);
        }
    }
}

template <typename T>
__device__ __forceinline__ u64 signed_word(T value) {
    return (u64)(i64)value ^ SIGN;
}

// The sign bit of a type.
template <typename T>
constexpr T SIGN_OF = (T)((T)1 << (8 * sizeof(T) - 1));

// IEEE 754 total order of the bits of a float of type `T`'s width.
template <typename T>
__device__ __forceinline__ u64 total_word(T bits) {
    return (T)((bits & SIGN_OF<T>) == 0 ? bits | SIGN_OF<T> : ~bits);
}

// The same, but -0.0 is 0.0: DataFusion compares floats so.
template <typename T>
__device__ __forceinline__ u64 float_word(T bits) {
    return total_word(bits == SIGN_OF<T> ? (T)0 : bits);
}

// Keys of one type. Bound: bytes, one value read and 8 bytes written a row. Launch: blocks of 256, a block for each
// 2048 rows.
#define KEYS(name, T, word)                                                                                    \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                        \
        keys_##name(const T* __restrict__ values, u64* __restrict__ out, u32 n) {                              \
        keys_of(values, out, n, [](T v) -> u64 { return word; });                                              \
    }

KEYS(signed8, i8, signed_word(v))
KEYS(signed16, i16, signed_word(v))
KEYS(signed32, i32, signed_word(v))
KEYS(signed64, i64, signed_word(v))
KEYS(unsigned8, u8, v)
KEYS(unsigned16, u16, v)
KEYS(unsigned32, u32, v)
KEYS(unsigned64, u64, v)
KEYS(float16, u16, float_word(v))
KEYS(float32, u32, float_word(v))
KEYS(float64, u64, float_word(v))
// Total order, in which zeros differ: for minimum and maximum.
KEYS(total16, u16, total_word(v))
KEYS(total32, u32, total_word(v))
KEYS(total64, u64, total_word(v))
// An interval of days (low half) and milliseconds (high half), ordered by days first.
KEYS(day_time, u64, (v << 32 | v >> 32) ^ (SIGN | 1ull << 31))

// Keys of Booleans. Bound: bytes, 8 written a row. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    keys_bool(const u32* __restrict__ bits, u64* __restrict__ out, u32 n) {
    each_row(n, [=](u32 i) { return bit_at(bits, i); }, [=](u32 i, bool set) { out[i] = set; });
}

// Sets `found[0]` if a row with a key in `low` has none in `high`, or one that is less, or equal if `strictly` is not 0.
// Bound: bytes, 16 read a row. Launch: blocks of 256, a block for each 1024 rows; both bitmaps may be null.
extern "C" __global__ void __launch_bounds__(BLOCK)
    keys_disordered(const u64* __restrict__ low, const u32* __restrict__ low_valid, const u64* __restrict__ high,
                    const u32* __restrict__ high_valid, u32 strictly, u32* __restrict__ found, u32 n) {
    each_row(
        n,
        [=](u32 i) {
            const u64 from = low[i];
            const u64 to = high[i];
            const bool ordered = from < to || (from == to && strictly == 0);
            return bit_at(low_valid, i) && !(ordered && bit_at(high_valid, i));
        },
        [=](u32, bool disordered) {
            if (disordered) {
                *found = 1;
            }
        });
}

// Words of the rows in a sort's order so far, for its next pass: `out[i]` is the word of row `rows[i]` (of row i where
// `rows` is null), XORed with `flip`, whose bits are set for a descending order; 0 for a NULL, and `valid` may be null.
// Bound: a row id, a word and a bit read at random, 8 bytes written a row. Launch: blocks of 256, a block for each 1024
// rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    keys_ordered(const u64* __restrict__ words, const u32* __restrict__ valid, const u32* __restrict__ rows, u64 flip,
                 u64* __restrict__ out, u32 n) {
    each_row(
        n,
        [=](u32 i) {
            const u32 row = rows == nullptr ? i : rows[i];
            return bit_at(valid, row) ? words[row] ^ flip : 0;
        },
        [=](u32 i, u64 word) { out[i] = word; });
}

__device__ __forceinline__ i128 wide(u64 low_half, u64 high_half) {
    return (i128)((u128)high_half << 64 | low_half);
}

// Keys of 128-bit values by their distance from `low`: `value - low + 1` in `low ..= high`, 0 below, `high - low + 2`
// above. `high - low` is at most 2^64 - 3. Bound: bytes, 16 read and 8 written a row. Launch: blocks of 256, a block
// for each 1024 rows; values are aligned to 16 bytes.
extern "C" __global__ void __launch_bounds__(BLOCK)
    keys_offset128(const i128* __restrict__ values, u64 low_lo, u64 low_hi, u64 high_lo, u64 high_hi,
                   u64* __restrict__ out, u32 n) {
    const i128 low = wide(low_lo, low_hi);
    const i128 high = wide(high_lo, high_hi);
    each_row(
        n, [=](u32 i) { return values[i]; },
        [=](u32 i, i128 v) { out[i] = v < low ? 0 : v > high ? (u64)(high - low) + 2 : (u64)(v - low) + 1; });
}

struct alignas(16) Extremes {
    i128 low, high;
};

// Extremes of no value: low is above high.
constexpr Extremes NO_EXTREMES = {I128_MAX, I128_MIN};

struct Widen {
    __device__ Extremes operator()(const Extremes& a, const Extremes& b) const {
        return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
    }
};

__device__ __forceinline__ void store_block_extremes(Extremes mine, Extremes* out) {
    using Reduce = cub::BlockReduce<Extremes, BLOCK>;
    __shared__ typename Reduce::TempStorage scratch;
    const Extremes all = Reduce(scratch).Reduce(mine, Widen());
    if (threadIdx.x == 0) {
        out[blockIdx.x] = all;
    }
}

struct Seen {
    i128 value;
    bool valid;
};

// Minimum and maximum of the valid 128-bit values of each block. Bound: bytes, 16 read a row. Launch: blocks of 256, a
// grid of any size (8 blocks a multiprocessor); `valid` may be null; `out` has 32 bytes for each block; `values` and
// `out` are aligned to 16.
extern "C" __global__ void __launch_bounds__(BLOCK)
    keys_extremes128(const i128* __restrict__ values, const u32* __restrict__ valid, Extremes* __restrict__ out, u32 n) {
    Extremes mine = NO_EXTREMES;
    each_row_in_turn(
        n, [=](u32 i) { return Seen{values[i], bit_at(valid, i)}; },
        [&](u32, Seen seen) { mine = seen.valid ? Widen()(mine, {seen.value, seen.value}) : mine; });
    store_block_extremes(mine, out);
}

// The extremes over all blocks of the previous launch. Launch: one block of 256.
extern "C" __global__ void __launch_bounds__(BLOCK)
    keys_extremes128_total(const Extremes* __restrict__ blocks, Extremes* __restrict__ out, u32 n) {
    Extremes mine = NO_EXTREMES;
    for (u32 i = threadIdx.x; i < n; i += BLOCK) {
        mine = Widen()(mine, blocks[i]);
    }
    store_block_extremes(mine, out);
}
