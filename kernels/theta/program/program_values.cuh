// Operations on the words of one pair: integers in their width, order keys of floats, NaNs, casts.
#pragma once

#include "theta/program/program_tape.cuh"

constexpr u64 SIGN = 1ull << 63;
constexpr u32 SIGN_32 = 1u << 31;
constexpr u64 QUIET = 1ull << 51;
constexpr u32 QUIET_32 = 1u << 22;

// Words as floats and back.
struct Double {
    using Value = f64;
    static constexpr u64 QUIETED = QUIET;
    static __device__ __forceinline__ f64 of(u64 word) { return __longlong_as_double(i64(word)); }
    static __device__ __forceinline__ u64 word(f64 value) { return u64(__double_as_longlong(value)); }
    static __device__ __forceinline__ f64 add(f64 x, f64 y) { return __dadd_rn(x, y); }
    static __device__ __forceinline__ f64 sub(f64 x, f64 y) { return __dsub_rn(x, y); }
    static __device__ __forceinline__ f64 mul(f64 x, f64 y) { return __dmul_rn(x, y); }
    static __device__ __forceinline__ f64 div(f64 x, f64 y) { return __ddiv_rn(x, y); }

    // As order_keys.rs: IEEE 754's total order, but -0.0 is 0.0.
    static __device__ __forceinline__ u64 key(u64 word) {
        word = word == SIGN ? 0 : word;
        return (word & SIGN) == 0 ? word | SIGN : ~word;
    }
};

struct Single {
    using Value = float;
    static constexpr u64 QUIETED = QUIET_32;
    static __device__ __forceinline__ float of(u64 word) { return __uint_as_float(u32(word)); }
    static __device__ __forceinline__ u64 word(float value) { return __float_as_uint(value); }
    static __device__ __forceinline__ float add(float x, float y) { return __fadd_rn(x, y); }
    static __device__ __forceinline__ float sub(float x, float y) { return __fsub_rn(x, y); }
    static __device__ __forceinline__ float mul(float x, float y) { return __fmul_rn(x, y); }
    static __device__ __forceinline__ float div(float x, float y) { return __fdiv_rn(x, y); }

    static __device__ __forceinline__ u64 key(u64 word) {
        const u32 bits = u32(word) == SIGN_32 ? 0 : u32(word);
        return (bits & SIGN_32) == 0 ? bits | SIGN_32 : ~bits;
    }
};

template <typename Value>
__device__ __forceinline__ bool is_nan(Value value) {
    return value != value;
}

// The NaN that results from an operation on `a` and `b`: that of its operands. `undecided` is set where hosts differ:
// in the sign of a NaN that no operand has, and in which of two NaN operands is propagated.
template <typename Float>
__device__ __forceinline__ u64 nan_of(u64 a, u64 b, bool& undecided) {
    const bool from_a = is_nan(Float::of(a));
    const bool from_b = is_nan(Float::of(b));
    a |= Float::QUIETED;
    b |= Float::QUIETED;
    undecided = !(from_a || from_b) || (from_a && from_b && a != b);
    return from_a ? a : b;
}

__device__ __forceinline__ bool is_wide(Kind kind) {
    return kind == Kind::I64 || kind == Kind::U64;
}

// Whether kind `to` represents an integer of kind `from` (or a BOOL); its word is then the same.
__device__ __forceinline__ bool fits(u64 word, Kind from, Kind to) {
    if (is_wide(to)) {
        return is_signed(from) == is_signed(to) || i64(word) >= 0;
    }
    return Extension(to)(u32(word)) == word && (is_signed(from) || i64(word) >= 0);
}

// A float of the other width as one of kind `to`; a NaN keeps its sign and as much of its payload as fits.
__device__ __forceinline__ u64 float_to_float(u64 word, Kind to) {
    if (to == Kind::F64) {
        const float value = Single::of(word);
        return is_nan(value) ? (word & SIGN_32) << 32 | 0x7FF8ull << 48 | (word & (QUIET_32 - 1)) << 29 : Double::word(f64(value));
    }
    const f64 value = Double::of(word);
    return is_nan(value) ? (word >> 32 & SIGN_32) | 0x7FC00000u | (word >> 29 & (QUIET_32 - 1)) : Single::word(__double2float_rn(value));
}

__device__ __forceinline__ u64 float_to_int(f64 value, Kind to, bool& undecided) {
    const f64 whole = trunc(value);
    const u32 bits = width_of(to);
    // 2 to the power of the number of bits without the sign.
    const f64 above = Double::of(u64(1023 + bits - is_signed(to)) << 52);
    const f64 least = is_signed(to) ? -above : 0.0;
    undecided = !(whole >= least && whole < above);
    if (undecided) {
        return 0;
    }
    return is_signed(to) ? u64(__double2ll_rz(whole)) : __double2ull_rz(whole);
}

__device__ __forceinline__ u64 cast(u64 word, Kind from, Kind to, bool& undecided) {
    if (to == Kind::BOOL) {
        const bool set = from == Kind::F64 ? Double::of(word) != 0.0 : from == Kind::F32 ? Single::of(word) != 0.0f : word != 0;
        return u64(set);
    }
    if (is_float(from) && is_float(to)) {
        return float_to_float(word, to);
    }
    if (is_float(from)) {
        return float_to_int(from == Kind::F64 ? Double::of(word) : f64(Single::of(word)), to, undecided);
    }
    if (to == Kind::F64) {
        return Double::word(is_signed(from) ? __ll2double_rn(i64(word)) : __ull2double_rn(word));
    }
    if (to == Kind::F32) {
        return Single::word(is_signed(from) ? __ll2float_rn(i64(word)) : __ull2float_rn(word));
    }
    undecided = !fits(word, from, to);
    return word;
}

// DIV and REM of integers.
__device__ __forceinline__ u64 divide(Code code, Kind kind, u64 a, u64 b, bool& undecided) {
    const u64 least = kind == Kind::I64 ? SIGN : ~0ull << (width_of(kind) - 1);
    undecided = b == 0 || (is_signed(kind) && b == ~0ull && a == least);
    if (undecided) {
        return 0;
    }
    if (is_signed(kind)) {
        return u64(code == Code::DIV ? i64(a) / i64(b) : i64(a) % i64(b));
    }
    return code == Code::DIV ? a / b : a % b;
}

// The operations whose code is too long to be unrolled over the pairs of a lane.
__device__ __forceinline__ u64 other(const Step& step, u64 a, u64 b, bool& undecided) {
    const Kind kind = step.kind;
    if (step.code == Code::CAST) {
        return cast(a, step.from, kind, undecided);
    }
    if (step.code == Code::NEG) {
        return kind == Kind::F64 ? a ^ SIGN : kind == Kind::F32 ? a ^ SIGN_32 : is_wide(kind) ? 0 - a : Extension(kind)(0 - u32(a));
    }
    if (kind == Kind::F64) {
        const f64 rest = fmod(Double::of(a), Double::of(b));
        return is_nan(rest) ? nan_of<Double>(a, b, undecided) : Double::word(rest);
    }
    if (kind == Kind::F32) {
        const float rest = fmodf(Single::of(a), Single::of(b));
        return is_nan(rest) ? nan_of<Single>(a, b, undecided) : Single::word(rest);
    }
    return divide(step.code, kind, a, b, undecided);
}
