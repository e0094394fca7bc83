// The accumulators of one launch, by group: small codes, passed by value, and the loads of a column's values for them.
//
// A result is an array of 64-bit words by group, or of 32-bit row ids. It holds the neutral element before the launch:
// all bits set for MIN, AND, FIRST_ROW and ARG_*, zeros for the others. Whether a group has any valid value follows
// from a COUNT with the same validity.
//
// Variances need two launches: SUM_F64 and COUNT give each group's mean m; then DEVIATION and SQUARED_DEVIATION with
// these means as centers give d = sum(x - m) and s = sum((x - m)^2), and M2 = s - d^2 / count. That is the corrected
// two-pass formula: no large numbers cancel, whatever the means, and (count, mean, M2) of two parts are merged by
// Chan's formula.
#pragma once

#include "shared/tile.cuh"

enum Update : u32 {
    COUNT = 0,
    // Wrapping sums of 64, 128 and 256 bits; words from the lowest up, each word as an array over all groups.
    SUM = 1,
    SUM128 = 2,
    SUM256 = 3,
    SUM_F64 = 4,
    DEVIATION = 5,
    SQUARED_DEVIATION = 6,
    // Over order keys: signed numbers with the sign flipped, floats in their total order (f32: in the low 32 bits).
    MIN = 7,
    MAX = 8,
    AND = 9,
    OR = 10,
    XOR = 11,
    // The lowest and the highest row id of a valid value.
    FIRST_ROW = 12,
    LAST_ROW = 13,
    // The row of the minimum, the first of equal ones; and of the maximum, the last of equal ones.
    ARG_MIN = 14,
    ARG_MAX = 15,
};

enum Kind : u32 { BIT = 0, U8, U16, U32, U64, I8, I16, I32, I64, F32, F64, I128, I256 };

// One accumulator: an input column, its result by group, and the codes Update and Kind.
struct Accumulator {
    const void* values;
    // Null: all are valid.
    const u32* valid;
    // By group; null: 0.
    const f64* centers;
    void* out;
    u32 update, kind;
    // 32-bit words of shared memory that a place has for the accumulators before this one.
    u32 words_before;
    u32 unused;
};

constexpr u32 MAX_ACCUMULATORS = 16;

// All accumulators of a launch, a kernel argument.
struct Accumulators {
    Accumulator of[MAX_ACCUMULATORS];
    u32 count, unused;
    // The number of groups for which a result array is allocated: the distance of the words of wide sums.
    u64 capacity;
};

// 32-bit words that a place has for an accumulator.
__device__ __forceinline__ u32 words_of(u32 update) {
    switch (update) {
        case COUNT:
        case FIRST_ROW:
        case LAST_ROW:
        case ARG_MIN:
        case ARG_MAX: return 1;
        case SUM128: return 4;
        case SUM256: return 8;
        default: return 2;
    }
}

__device__ __forceinline__ u32 neutral_of(u32 update) {
    const bool ones = update == MIN || update == AND || update == FIRST_ROW || update == ARG_MIN || update == ARG_MAX;
    return ones ? ~0u : 0u;
}

// Rows that a thread processes at a time. Each is accumulated in a place of the block's shared memory, in a group in
// global memory, or nowhere.
constexpr u32 ROWS = 4;
constexpr u32 WARP_ROWS = ROWS * WARP;
constexpr u32 IN_GLOBAL = 1u << 31;
constexpr u32 NOWHERE = ~0u;

struct Rows {
    // The lane's first row; the others follow at a distance of 32.
    u32 first;
    u32 place[ROWS];
    // The lane's padding place, which no result reads: rows without a place in shared memory are added there, so that
    // no branch separates the atomics of a thread.
    u32 waste;
    // Whether any row is accumulated in global memory.
    bool outside;

    __device__ __forceinline__ u32 row(u32 k) const { return first + k * WARP; }
    __device__ __forceinline__ bool somewhere(u32 k) const { return place[k] != NOWHERE; }
    __device__ __forceinline__ u32 shared_place(u32 k) const { return min(place[k], waste); }
};

// AGAIN: the values may stay in L2, which is otherwise kept for the accumulators.
template <bool AGAIN, typename T>
__device__ __forceinline__ void read_as(const void* values, const Rows& rows, u64 (&word)[ROWS]) {
    const T* at = static_cast<const T*>(values) + rows.first;
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        word[k] = !rows.somewhere(k) ? 0 : AGAIN ? (u64)__ldg(at + k * WARP) : (u64)__ldcs(at + k * WARP);
    }
}

// The values of the rows that are accumulated somewhere, signed ones sign-extended, floats as their bits.
template <bool AGAIN>
__device__ __forceinline__ void read_values(const void* values, u32 kind, const Rows& rows, u64 (&word)[ROWS]) {
    switch (kind) {
        case BIT:
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                word[k] = rows.somewhere(k) && bit_at(static_cast<const u32*>(values), rows.row(k));
            }
            return;
        case U8: return read_as<AGAIN, u8>(values, rows, word);
        case I8: return read_as<AGAIN, i8>(values, rows, word);
        case U16: return read_as<AGAIN, u16>(values, rows, word);
        case I16: return read_as<AGAIN, i16>(values, rows, word);
        case I32: return read_as<AGAIN, i32>(values, rows, word);
        case U32:
        case F32: return read_as<AGAIN, u32>(values, rows, word);
        default: return read_as<AGAIN, u64>(values, rows, word);
    }
}

// The value of one row, as above.
__device__ __forceinline__ u64 value_at(const void* values, u32 kind, u32 row) {
    switch (kind) {
        case BIT: return bit_at(static_cast<const u32*>(values), row);
        case U8: return static_cast<const u8*>(values)[row];
        case I8: return (u64)(i64)static_cast<const i8*>(values)[row];
        case U16: return static_cast<const u16*>(values)[row];
        case I16: return (u64)(i64)static_cast<const i16*>(values)[row];
        case I32: return (u64)(i64)static_cast<const i32*>(values)[row];
        case U32:
        case F32: return static_cast<const u32*>(values)[row];
        default: return static_cast<const u64*>(values)[row];
    }
}

// log2 of the bits of a value of a column; one digit of the constant for each kind.
__device__ __forceinline__ u32 log_bits_of(u32 kind) {
    return (u32)(0x8765654365430ull >> 4 * kind) & 15;
}

// Prefetches into L2 the rows of a column, 2^log_bits bits each, that a warp processes next.
__device__ __forceinline__ void fetch_ahead(const void* column, u32 log_bits, u32 first, u32 end) {
    constexpr u32 LINE = 128;
    const u64 at = ((u64)first << log_bits) / 8 + threadIdx.x % WARP * LINE;
    if (at < ((u64)min(end, first + WARP_ROWS) << log_bits) / 8) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(column) + at));
    }
}

constexpr u64 SIGN_BIT = 1ull << 63;

// Words with the order of the values.
__device__ __forceinline__ u64 order_key(u32 kind, u64 word) {
    switch (kind) {
        case I8:
        case I16:
        case I32:
        case I64: return word ^ SIGN_BIT;
        case F32: return (u32)word ^ ((u32)((i32)(u32)word >> 31) | 1u << 31);
        case F64: return word ^ ((u64)((i64)word >> 63) | SIGN_BIT);
        default: return word;
    }
}

__device__ __forceinline__ f64 real(u32 kind, u64 word) {
    switch (kind) {
        case I8:
        case I16:
        case I32:
        case I64: return (f64)(i64)word;
        case F32: return (f64)__uint_as_float((u32)word);
        case F64: return __longlong_as_double((i64)word);
        default: return (f64)word;
    }
}

// Signed comparison of two wide numbers of a column, from the highest word down.
__device__ __forceinline__ i32 compare_wide(const u64* values, u32 words, u32 a, u32 b) {
    for (u32 j = words; j-- > 0;) {
        const u64 flip = j + 1 == words ? SIGN_BIT : 0;
        const u64 left = values[(u64)a * words + j] ^ flip;
        const u64 right = values[(u64)b * words + j] ^ flip;
        if (left != right) {
            return left < right ? -1 : 1;
        }
    }
    return 0;
}
