// A row program as the host encodes it, and the meaning of its operations on the word of a row. Operations that pair
// programs share are in program_values.cuh.
#pragma once

#include "theta/program/program_values.cuh"

constexpr u32 MAP_REGISTERS = 16;

// Codes in addition to those of pair programs, whose LOAD_BUILD loads a column here.
enum MapCode : u8 { SCALE = 32, ROUND = 33, FLOOR = 34, PART = 35, STORE = 36, TRUNCATE = 37, TO_FLOAT = 38, FROM_FLOAT = 39 };
// In addition to the kinds of pair programs.
constexpr u8 DECIMAL = 11;

constexpr u8 VALUE = 0, NO_VALUE = 1, UNDECIDED = 2;
// Days beyond this, before or after 1970, are left to the host fallback.
constexpr i64 FAR_DAYS = 90000000;

// A column of an input or an output; the values of BOOL are a bitmap. `valid` may be null for an input.
struct MapColumn {
    u64 values, valid, kind;
};

// `constant`: its lower half first. `bound`: an exclusive upper bound of a decimal's absolute value.
struct MapInstruction {
    u8 code, kind, from, out, a, b, c, unused;
    u64 column;
    u64 constant[2];
    u64 bound[2];
};

__device__ __forceinline__ u128 wide(const u64 (&halves)[2]) {
    return u128(halves[1]) << 64 | halves[0];
}

// Calls `f(word_at)`; `word_at(i)` reads the word of row `i`.
template <typename F>
__device__ __forceinline__ void each_word_of(const MapColumn& column, F f) {
    const u64 at = column.values;
    switch (column.kind) {
        case u64(Kind::I8): return f([=](u32 i) { return u64(i64(reinterpret_cast<const i8*>(at)[i])); });
        case u64(Kind::I16): return f([=](u32 i) { return u64(i64(reinterpret_cast<const i16*>(at)[i])); });
        case u64(Kind::I32): return f([=](u32 i) { return u64(i64(reinterpret_cast<const i32*>(at)[i])); });
        case u64(Kind::U8): return f([=](u32 i) { return u64(reinterpret_cast<const u8*>(at)[i]); });
        case u64(Kind::U16): return f([=](u32 i) { return u64(reinterpret_cast<const u16*>(at)[i]); });
        case u64(Kind::U32): case u64(Kind::F32): return f([=](u32 i) { return u64(reinterpret_cast<const u32*>(at)[i]); });
        case u64(Kind::BOOL): return f([=](u32 i) { return u64(bit_at(reinterpret_cast<const u32*>(at), i)); });
        case DECIMAL: return f([=](u32 i) {
            const ulonglong2 halves = reinterpret_cast<const ulonglong2*>(at)[i];
            return u128(halves.y) << 64 | halves.x;
        });
        default: return f([=](u32 i) { return reinterpret_cast<const u64*>(at)[i]; });
    }
}

// Calls `f(put)`; `put(i, word)` writes the word of row `i`. Not for bits.
template <typename F>
__device__ __forceinline__ void store_words(const MapColumn& column, F f) {
    const u64 at = column.values;
    switch (column.kind) {
        case u64(Kind::BOOL): return;
        case u64(Kind::I8): case u64(Kind::U8): return f([=](u32 i, auto word) { reinterpret_cast<u8*>(at)[i] = u8(word); });
        case u64(Kind::I16): case u64(Kind::U16): return f([=](u32 i, auto word) { reinterpret_cast<u16*>(at)[i] = u16(word); });
        case u64(Kind::I32): case u64(Kind::U32): case u64(Kind::F32):
            return f([=](u32 i, auto word) { reinterpret_cast<u32*>(at)[i] = u32(word); });
        case DECIMAL: return f([=](u32 i, auto word) {
            reinterpret_cast<ulonglong2*>(at)[i] = make_ulonglong2(u64(word), u64(u128(word) >> 64));
        });
        default: return f([=](u32 i, auto word) { reinterpret_cast<u64*>(at)[i] = u64(word); });
    }
}

__device__ __forceinline__ bool compares(Code code, bool less, bool equal) {
    switch (code) {
        case Code::EQ: case Code::NOT_DISTINCT: return equal;
        case Code::NOT_EQ: case Code::DISTINCT: return !equal;
        case Code::LT: return less;
        case Code::LT_EQ: return less || equal;
        case Code::GT: return !less && !equal;
        default: return !less;
    }
}

__device__ __forceinline__ bool compare_words(Code code, Kind kind, u64 a, u64 b) {
    if (kind == Kind::F64) {
        return compares(code, Double::key(a) < Double::key(b), Double::key(a) == Double::key(b));
    }
    if (kind == Kind::F32) {
        return compares(code, Single::key(a) < Single::key(b), Single::key(a) == Single::key(b));
    }
    return compares(code, is_signed(kind) ? i64(a) < i64(b) : a < b, a == b);
}

template <typename Float>
__device__ __forceinline__ u64 float_arithmetic(Code code, u64 a, u64 b, bool& undecided) {
    const auto x = Float::of(a);
    const auto y = Float::of(b);
    const auto result = code == Code::ADD   ? Float::add(x, y)
                        : code == Code::SUB ? Float::sub(x, y)
                        : code == Code::MUL ? Float::mul(x, y)
                        : code == Code::DIV ? Float::div(x, y)
                                            : Float::of(0);
    if (code == Code::REM) {
        const f64 rest = fmod(f64(x), f64(y));
        return is_nan(rest) ? nan_of<Float>(a, b, undecided) : Float::word(typename Float::Value(rest));
    }
    return is_nan(result) ? nan_of<Float>(a, b, undecided) : Float::word(result);
}

__device__ __forceinline__ u64 arithmetic(Code code, Kind kind, u64 a, u64 b, bool& undecided) {
    if (kind == Kind::F64) {
        return float_arithmetic<Double>(code, a, b, undecided);
    }
    if (kind == Kind::F32) {
        return float_arithmetic<Single>(code, a, b, undecided);
    }
    if (code == Code::DIV || code == Code::REM) {
        return divide(code, kind, a, b, undecided);
    }
    const u64 word = code == Code::ADD ? a + b : code == Code::SUB ? a - b : a * b;
    return is_wide(kind) ? word : Extension(kind)(u32(word));
}

__device__ __forceinline__ u64 negative(Kind kind, u64 a) {
    return kind == Kind::F64   ? a ^ SIGN
           : kind == Kind::F32 ? a ^ SIGN_32
           : is_wide(kind)     ? 0 - a
                               : Extension(kind)(0 - u32(a));
}

__device__ __forceinline__ u128 distance(i128 value) {
    return value < 0 ? 0 - u128(value) : u128(value);
}

// A product of 128 bits; `undecided` if it overflows.
__device__ __forceinline__ u128 multiply(u128 a, u128 b, bool& undecided) {
    const u128 product = a * b;
    const u128 x = distance(i128(a));
    const u128 y = distance(i128(b));
    // Two factors of at most 63 bits, the common case, have a product of at most 126.
    if (((x | y) >> 63) != 0 && x != 0) {
        const u128 most = ~u128(0) >> 1;
        const bool is_negative = i128(a ^ b) < 0;
        undecided = y > (most + (is_negative ? 1 : 0)) / x;
    }
    return product;
}

__device__ __forceinline__ u128 decimal_arithmetic(Code code, u128 a, u128 b, bool& undecided) {
    if (code == Code::MUL) {
        return multiply(a, b, undecided);
    }
    const u128 result = code == Code::ADD ? a + b : a - b;
    const u128 other = code == Code::ADD ? b : ~b;
    undecided = i128((a ^ result) & (other ^ result)) < 0;
    return result;
}

// A quotient or a remainder, rounded towards zero; `undecided` if there is none.
__device__ __forceinline__ u128 divided(Code code, i128 value, i128 by, bool& undecided) {
    undecided = by == 0 || (by == -1 && u128(value) == u128(1) << 127);
    if (undecided) {
        return 0;
    }
    return u128(code == Code::DIV ? value / by : value % by);
}

// Rounds half away from zero.
__device__ __forceinline__ u128 rounded(i128 value, i128 by) {
    const i128 quotient = value / by;
    const i128 rest = value % by;
    const i128 half = by / 2;
    return u128(value >= 0 ? quotient + (rest >= half ? 1 : 0) : quotient - (rest <= -half ? 1 : 0));
}

__device__ __forceinline__ i64 floor_of(i64 value, i64 by) {
    return value / by - (value % by < 0 ? 1 : 0);
}

// The year, the month or the day of the month of a day counted from 1970, as on the host: years begin in March, and
// eras have 400 years.
__device__ __forceinline__ i64 date_part(i64 since_1970, u32 part) {
    const i64 days = since_1970 + 719468;
    const i64 era = floor_of(days, 146097);
    const i64 of_era = days - era * 146097;
    const i64 year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const i64 of_year = of_era - (365 * year + year / 4 - year / 100);
    const i64 march_month = (5 * of_year + 2) / 153;
    const i64 month = march_month < 10 ? march_month + 3 : march_month - 9;
    if (part == 0) {
        return year + era * 400 + (month <= 2 ? 1 : 0);
    }
    return part == 1 ? month : of_year - (153 * march_month + 2) / 5 + 1;
}
