// Rows as tuples of words, compared word by word: word `j` of row `i` lies at `j * rows + i`. Two ways to make them: words
// whose order is that of the values, and words that are only equal where the values are, of which narrow columns share one.
#pragma once

#include "shared/tile.cuh"

constexpr u64 SIGN = 1ull << 63;

template <u32 WORDS>
struct alignas(16) Wide {
    u64 words[WORDS];
};

// A field of a word: `value << shift`, beside what the word holds already when `add` is not 0. A NULL is 0, and so is the
// negative zero of floats (0 for other types).
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

// Values of one width as a field of their rows' words; `valid` may be null. Bound: a value read and 8 bytes written a row, 8
// more read to add. Blocks of 256, a block takes 1024 rows.
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

// Bits as a field of one bit; of two bitmaps, of which the second may be null, the common ones. As above, a bit read a row.
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

// Where the words of all rows go: those of one place in the tuple after the other.
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

// The words of a wide value, the lowest first, each above the lowest inverted where the one below is negative: a number that
// fits fewer words leaves those above 0, whatever its sign, and words on which all rows agree cost no pass of a sort.
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

// Wide values as words that are equal where the values are, each to a place of its own; a NULL's are 0, and `valid` may be
// null. Bound: a value read and written a row. Blocks of 256, a block takes 1024 rows; values are aligned to 16 bytes.
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

// Wide numbers as tuples in their order. Bound: a value read and written a row. Blocks of 256, a block takes 1024 rows; values
// are aligned to 16 bytes.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_order128(const Wide<2>* __restrict__ values, u64* __restrict__ words, u32 n) {
    split_signed(values, words, n);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_order256(const Wide<4>* __restrict__ values, u64* __restrict__ words, u32 n) {
    split_signed(values, words, n);
}

// The same for intervals of months (the lowest 32 bits), days (the next) and nanoseconds, which order by these.
extern "C" __global__ void __launch_bounds__(BLOCK)
    groups_order_month_day_nano(const Wide<2>* __restrict__ values, u64* __restrict__ words, u32 n) {
    split(values, columns_of<2>(words, n), n, [](u32, Wide<2> value) {
        const u64 months_days = value.words[0] << 32 | value.words[0] >> 32;
        return Wide<2>{months_days ^ (SIGN | 1ull << 31), value.words[1] ^ SIGN};
    });
}
