// Rows as tuples of 64-bit words, compared word by word; word `j` of row `i` is at `j * rows + i`. There are two
// encodings: words in the order of the values, and words that only preserve equality, of which narrow columns share
// one.
#pragma once

#include "shared/tile.cuh"

constexpr u64 SIGN = 1ull << 63;

// A value of WORDS 64-bit words, the lowest first.
template <u32 WORDS>
struct alignas(16) Wide {
    u64 words[WORDS];
};

// A field of a word: `value << shift`, ORed into the word if `add` is not 0. A NULL is 0, and so is the negative zero
// of floats (`negative_zero` is 0 for other types).
template <typename T>
__device__ __forceinline__ void pack(const T* values, const u32* valid, u64 negative_zero, u32 shift, u32 add, u64* words,
                                     u32 n) {
    each_row(
        n,
        [=](u32 i) {
            const u64 value = values[i];
            const bool zero = !bit_at(valid, i) || value == negative_zero;
            return (zero ? 0 : value << shift) | (add != 0 ? words[i] : 0);
        },
        [=](u32 i, u64 word) { words[i] = word; });
}

// Values of one width as a field of their rows' words; `valid` may be null. Bound: a value read and 8 bytes written a
// row, 8 more read to add. Launch: blocks of 256, a block for each 1024 rows.
#define PACK(bits, T)                                                                                          \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                        \
        groups_pack##bits(const T* __restrict__ values, const u32* __restrict__ valid, u64 negative_zero,      \
                          u32 shift, u32 add, u64* words, u32 n) {                                             \
        pack(values, valid, negative_zero, shift, add, words, n);                                              \
    }

PACK(8, u8)
PACK(16, u16)
PACK(32, u32)
PACK(64, u64)

// Bits as a field of one bit; of two bitmaps, of which the second may be null, their AND. As above, with a bit read a
// row.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_pack_bool(const u32* __restrict__ bits, const u32* __restrict__ valid, u32 shift, u32 add, u64* words, u32 n) {
    each_row(
        n,
        [=](u32 i) {
            const u64 set = bit_at(bits, i) && bit_at(valid, i);
            return set << shift | (add != 0 ? words[i] : 0);
        },
        [=](u32 i, u64 word) { words[i] = word; });
}

// The output columns, one for each word of the tuple.
template <u32 WORDS>
struct Columns {
    u64* words[WORDS];
};

template <u32 WORDS>
__device__ __forceinline__ Columns<WORDS> columns_of(u64* words, u32 n) {
    Columns<WORDS> columns;
#pragma unroll
    for (u32 j = 0; j < WORDS; j++) {
        columns.words[j] = words + (u64)j * n;
    }
    return columns;
}

template <u32 WORDS, typename WordsOf>
__device__ __forceinline__ void split(const Wide<WORDS>* values, Columns<WORDS> out, u32 n, WordsOf words_of) {
    each_row(n, [=](u32 i) { return words_of(i, values[i]); },
             [=](u32 i, Wide<WORDS> value) {
#pragma unroll
                 for (u32 j = 0; j < WORDS; j++) {
                     out.words[j][i] = value.words[j];
                 }
             });
}

// The words of a wide value, the lowest first. Each word above the lowest is inverted where the one below is negative:
// if a number fits in fewer words, the words above are 0, whatever its sign, and words that are equal in all rows need
// no sort pass.
template <u32 WORDS>
__device__ __forceinline__ void split_equal(const Wide<WORDS>* values, const u32* valid, Columns<WORDS> out, u32 n) {
    split(values, out, n, [=](u32 i, Wide<WORDS> value) {
        const bool kept = bit_at(valid, i);
        Wide<WORDS> words;
#pragma unroll
        for (u32 j = 0; j < WORDS; j++) {
            const u64 below = j == 0 ? 0 : value.words[j - 1];
            words.words[j] = kept ? value.words[j] ^ (u64)((i64)below >> 63) : 0;
        }
        return words;
    });
}

// Wide values as words that preserve equality, each in its own column; the words of a NULL are 0, and `valid` may be
// null. Bound: a value read and written a row. Launch: blocks of 256, a block for each 1024 rows; values are aligned to
// 16 bytes.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_split128(const Wide<2>* __restrict__ values, const u32* __restrict__ valid, u64* __restrict__ low,
                    u64* __restrict__ high, u32 n) {
    split_equal(values, valid, Columns<2>{{low, high}}, n);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_split256(const Wide<4>* __restrict__ values, const u32* __restrict__ valid, u64* __restrict__ first,
                    u64* __restrict__ second, u64* __restrict__ third, u64* __restrict__ fourth, u32 n) {
    split_equal(values, valid, Columns<4>{{first, second, third, fourth}}, n);
}

// Signed numbers as words in their order, the highest first.
template <u32 WORDS>
__device__ __forceinline__ void split_signed(const Wide<WORDS>* values, u64* words, u32 n) {
    split(values, columns_of<WORDS>(words, n), n, [](u32, Wide<WORDS> value) {
        Wide<WORDS> out;
#pragma unroll
        for (u32 j = 0; j < WORDS; j++) {
            out.words[j] = value.words[WORDS - 1 - j] ^ (j == 0 ? SIGN : 0);
        }
        return out;
    });
}

// Wide numbers as tuples in their order. Bound: a value read and written a row. Launch: blocks of 256, a block for each
// 1024 rows; values are aligned to 16 bytes.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_order128(const Wide<2>* __restrict__ values, u64* __restrict__ words, u32 n) {
    split_signed(values, words, n);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_order256(const Wide<4>* __restrict__ values, u64* __restrict__ words, u32 n) {
    split_signed(values, words, n);
}

// The same for intervals of months (the lowest 32 bits), days (the next) and nanoseconds, ordered by these three.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_order_month_day_nano(const Wide<2>* __restrict__ values, u64* __restrict__ words, u32 n) {
    split(values, columns_of<2>(words, n), n, [](u32, Wide<2> value) {
        const u64 months_days = value.words[0] << 32 | value.words[0] >> 32;
        return Wide<2>{months_days ^ (SIGN | 1ull << 31), value.words[1] ^ SIGN};
    });
}
