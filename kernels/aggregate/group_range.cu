// Direct address: keys in a narrow range minus the least key are group ids, without a table. Several columns are digits
// of one number, and a NULL is one more digit of its column.
#include "shared/units.cuh"

template <typename T>
__device__ __forceinline__ u64 key_of(T value, u64 sign) {
    return (u64)value ^ sign;
}

// One of each `every` tiles, and the last tile.
template <typename T>
__device__ __forceinline__ void extent(const T* values, const u32* valid, u32 n, u64 sign, u32 every, u64* extents) {
    const u32 tiles = (n + UNIT_TILE - 1) / UNIT_TILE;
    const u32 looked_at = (tiles - 1 + every - 1) / every + 1;
    Extent<T> found;
    for (u32 at = blockIdx.x; at < looked_at; at += gridDim.x) {
        Units<T> units;
        units.load(values, valid, n, min(at * every, tiles - 1));
#pragma unroll
        for (u32 k = 0; k < UNITS; k++) {
            found.add(units.values[k], units.valid[k] & units.inside(k, n), sign);
        }
    }
    found.join(extents);
}

// Id is u32, or u64 for keys that are only packed.
template <typename T, typename Id>
__device__ __forceinline__ void ids_of(const T* values, const u32* valid, u32 n, u64 sign, u64 least, Id null_digit, Id stride,
                                       u32 add, Id* ids) {
    each_row(
        n,
        [=](u32 i) {
            const Id digit = bit_at(valid, i) ? (Id)(key_of(values[i], sign) - least) : null_digit;
            return digit * stride + (add != 0 ? ids[i] : 0);
        },
        [=](u32 i, Id id) { ids[i] = id; });
}

// The same for bits, whose least value is 0.
template <typename Id>
__device__ __forceinline__ void ids_of_bits(const u32* bits, const u32* valid, u32 n, Id null_digit, Id stride, u32 add, Id* ids) {
    each_row(
        n,
        [=](u32 i) {
            const Id digit = bit_at(valid, i) ? (Id)bit_at(bits, i) : null_digit;
            return digit * stride + (add != 0 ? ids[i] : 0);
        },
        [=](u32 i, Id id) { ids[i] = id; });
}

// The digit of a column in an id. For a single column it is the id itself, as the division would take longer than the
// memory access.
template <typename Id>
__device__ __forceinline__ Id digit_of(Id id, Id stride, Id digits) {
    return stride == 1 && id < digits ? id : id / stride % digits;
}

// The digit of a column for groups 0, 1, …, or numbers[0], numbers[1], …, as values. The digit of NULL is `values`.
template <typename T, typename Id>
__device__ __forceinline__ void keys_of(const Id* numbers, u32 n, u64 sign, u64 least, Id values, Id stride, Id digits, T* out) {
    each_row(
        n, [=](u32 i) { return digit_of(numbers == nullptr ? (Id)i : numbers[i], stride, digits); },
        [=](u32 i, Id digit) { out[i] = digit < values ? (T)((least + digit) ^ sign) : (T)0; });
}

// For the same groups, the bits of those whose digit is `digit`, inverted or not.
template <typename Id>
__device__ __forceinline__ void digit_bits(const Id* numbers, u32 n, Id digit, Id stride, Id digits, u32 invert, u32* out) {
    each_word(
        n,
        [=](u32 i) {
            const Id number = numbers == nullptr ? (Id)i : numbers[i];
            return (digit_of(number, stride, digits) == digit) != (invert != 0);
        },
        [=](u32 w, u32 word) { out[w] = word; });
}

// group_range_extent*: extent[0] and extent[1] become the minimum and the maximum of the valid values (`valid` null:
// all), as order keys: with `sign`, the sign bit for signed types and 0 for others, flipped. They are set to all ones
// and 0 first. With `every` above 1 the values are a sample: one of each `every` tiles of 2048 rows, and the last tile.
// Bound: the values read once. Launch: blocks of 256, a grid of any size (8 blocks a multiprocessor).
//
// group_range_ids*: ids[i] = (key - least) * stride, with the digit null_digit for NULLs; added to the previous ids[i]
// if `add` is not 0. Every key is at least `least`, and all ids are below 2^32. Bound: a value read and 4 bytes written
// a row, 4 more read to add. Launch: blocks of 256, a block for each 1024 rows.
//
// group_range_words*: the same as words of 64 bits, for columns that are digits of a longer number. Bound: 8 bytes a
// row instead of 4.
//
// group_range_keys*: the inverse. out[i] becomes the value of the digit, one of `digits`, in the number of group i,
// which is i, or numbers[i] if `numbers` is not null; 0 for the digit `values` of NULLs. Bound: 4 bytes read, if there
// are numbers, and a value written a group. Launch: as group_range_ids*.
//
// group_range_long_keys*: the same for words of 64 bits.
#define RANGE(bits, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        group_range_extent##bits(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign,       \
                                 u32 every, u64* extents) {                                                          \
        extent(values, valid, n, sign, every, extents);                                                              \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        group_range_ids##bits(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign,          \
                              u64 least, u32 null_digit, u32 stride, u32 add, u32* ids) {                            \
        ids_of(values, valid, n, sign, least, null_digit, stride, add, ids);                                         \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        group_range_words##bits(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign,        \
                                u64 least, u64 null_digit, u64 stride, u32 add, u64* words) {                        \
        ids_of(values, valid, n, sign, least, null_digit, stride, add, words);                                       \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        group_range_keys##bits(const u32* __restrict__ numbers, u32 n, u64 sign, u64 least, u32 values, u32 stride,  \
                               u32 digits, T* __restrict__ out) {                                                    \
        keys_of(numbers, n, sign, least, values, stride, digits, out);                                               \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        group_range_long_keys##bits(const u64* __restrict__ numbers, u32 n, u64 sign, u64 least, u64 values,         \
                                    u64 stride, u64 digits, T* __restrict__ out) {                                   \
        keys_of(numbers, n, sign, least, values, stride, digits, out);                                               \
    }

RANGE(8, u8)
RANGE(16, u16)
RANGE(32, u32)
RANGE(64, u64)

// The same for bits.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_range_ids_bool(const u32* __restrict__ bits, const u32* __restrict__ valid, u32 n, u32 null_digit, u32 stride,
                         u32 add, u32* ids) {
    ids_of_bits(bits, valid, n, null_digit, stride, add, ids);
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_range_words_bool(const u32* __restrict__ bits, const u32* __restrict__ valid, u32 n, u64 null_digit, u64 stride,
                           u32 add, u64* words) {
    ids_of_bits(bits, valid, n, null_digit, stride, add, words);
}

// The bits of groups whose digit is `digit`, for values that are true, or for NULLs; inverted or not.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_range_bits(const u32* __restrict__ numbers, u32 n, u32 digit, u32 stride, u32 digits, u32 invert, u32* __restrict__ out) {
    digit_bits(numbers, n, digit, stride, digits, invert, out);
}
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_range_long_bits(const u64* __restrict__ numbers, u32 n, u64 digit, u64 stride, u64 digits, u32 invert,
                          u32* __restrict__ out) {
    digit_bits(numbers, n, digit, stride, digits, invert, out);
}

// Sets the bit of every id that a row has: ids[i] - first_id, below the number of bits. Bound: 4 bytes and a bit, which
// is cached, read a row; an atomic for the first rows of a group, which find the bit clear. Launch: blocks of 256, a
// block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_range_present(const u32* __restrict__ ids, u32 first_id, u32 n, u32* bits) {
    each_row(
        n, [=](u32 i) { return ids[i] - first_id; },
        [=](u32, u32 id) {
            // The load may be stale, but bits are only ever set.
            const u32 bit = 1u << (id % WARP);
            if ((__ldca(bits + id / WARP) & bit) == 0) {
                atomicOr(bits + id / WARP, bit);
            }
        });
}
