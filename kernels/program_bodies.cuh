// What steps do to the words of a lane's 16 pairs: written out for each pair where that is short, otherwise pair after pair.
#pragma once

#include "program_pairs.cuh"
#include "program_values.cuh"

// `a[p] = with(a[p], b(p))` of integers of a kind, wrapping in its width.
template <typename Second, typename With>
__device__ __forceinline__ void integers(Kind kind, u64 (&a)[PAIRS], Second b, With with) {
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        a[p] = with(a[p], b(p));
    }
    if (!is_wide(kind)) {
        const Extension extension(kind);
#pragma unroll
        for (u32 p = 0; p < PAIRS; p++) {
            a[p] = extension(u32(a[p]));
        }
    }
}

// `a[p] = with(a[p], b(p))` of the first COUNT pairs; returns those whose NaN the host must decide on.
template <typename Float, u32 COUNT, typename Second, typename With>
__device__ __forceinline__ u32 careful_floats(u64 (&a)[PAIRS], Second b, With with) {
    u32 fault = 0;
#pragma unroll
    for (u32 p = 0; p < COUNT; p++) {
        const typename Float::Value result = with(Float::of(a[p]), Float::of(b(p)));
        if (is_nan(result)) {
            bool undecided;
            a[p] = nan_of<Float>(a[p], b(p), undecided);
            fault |= u32(undecided) << p;
        } else {
            a[p] = Float::word(result);
        }
    }
    return fault;
}

// `some()` does the first COUNT of the words in `a` and `b` and returns their faults; the words go round, so that the code is
// there once.
template <u32 COUNT, typename Some>
__device__ __forceinline__ u32 in_turn(u64 (&a)[PAIRS], u64 (&b)[PAIRS], Some some) {
    u32 fault = 0;
#pragma unroll 1
    for (u32 first = 0; first < PAIRS; first += COUNT) {
        fault |= some() << first;
        u64 of_a[COUNT], of_b[COUNT];
#pragma unroll
        for (u32 k = 0; k < COUNT; k++) {
            of_a[k] = a[k];
            of_b[k] = b[k];
        }
#pragma unroll
        for (u32 k = 0; k + COUNT < PAIRS; k++) {
            a[k] = a[k + COUNT];
            b[k] = b[k + COUNT];
        }
#pragma unroll
        for (u32 k = 0; k < COUNT; k++) {
            a[PAIRS - COUNT + k] = of_a[k];
            b[PAIRS - COUNT + k] = of_b[k];
        }
    }
    return fault;
}

template <typename Float>
__device__ __forceinline__ typename Float::Value arithmetic(Code code, typename Float::Value x, typename Float::Value y) {
    switch (code) {
        case Code::ADD: return Float::add(x, y);
        case Code::SUB: return Float::sub(x, y);
        case Code::MUL: return Float::mul(x, y);
        default: return Float::div(x, y);
    }
}

// Any arithmetic of floats, some pairs at a time.
template <typename Float>
__device__ __forceinline__ u32 any_floats(Code code, u64 (&a)[PAIRS], u64 (&b)[PAIRS]) {
    constexpr u32 COUNT = 4;
    return in_turn<COUNT>(a, b, [&] {
        return careful_floats<Float, COUNT>(a, [&](u32 p) { return b[p]; },
                                            [&](auto x, auto y) { return arithmetic<Float>(code, x, y); });
    });
}

// ADD, SUB and MUL of F64. Of finite values they make no NaN; `special` is set where others are, and nothing else is done.
template <typename Second, typename With>
__device__ __forceinline__ void finite_doubles(u64 (&a)[PAIRS], Second b, With with, bool& special) {
    const f64 above = Double::of(0x7FF0ull << 48);
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        special |= !(fabs(Double::of(a[p])) < above) | !(fabs(Double::of(b(p))) < above);
    }
    if (!special) {
#pragma unroll
        for (u32 p = 0; p < PAIRS; p++) {
            a[p] = Double::word(with(Double::of(a[p]), Double::of(b(p))));
        }
    }
}

template <typename Second, typename Key>
__device__ __forceinline__ u32 compare(Order order, const u64 (&a)[PAIRS], Second b, Key key) {
    switch (order) {
        case Order::LESS: return each_bit([&](u32 p) { return key(a[p]) < key(b(p)); });
        case Order::GREATER: return each_bit([&](u32 p) { return key(a[p]) > key(b(p)); });
        default: return each_bit([&](u32 p) { return key(a[p]) == key(b(p)); });
    }
}

// The bodies that most programs are made of; false for any other, and where special floats need another one.
template <typename Second>
__device__ __forceinline__ bool run_common(const Step& step, u64 (&a)[PAIRS], Second b, u32& truth) {
    bool special = false;
    switch (step.body) {
        case Body::ADD_INT: integers(step.kind, a, b, [](u64 x, u64 y) { return x + y; }); return true;
        case Body::SUB_INT: integers(step.kind, a, b, [](u64 x, u64 y) { return x - y; }); return true;
        case Body::MUL_INT: integers(step.kind, a, b, [](u64 x, u64 y) { return x * y; }); return true;
        case Body::ADD_F64: finite_doubles(a, b, Double::add, special); return !special;
        case Body::SUB_F64: finite_doubles(a, b, Double::sub, special); return !special;
        case Body::MUL_F64: finite_doubles(a, b, Double::mul, special); return !special;
        case Body::COMPARE_SIGNED: truth = compare(step.order, a, b, [](u64 word) { return i64(word); }); return true;
        case Body::COMPARE_F64:
#pragma unroll
            for (u32 p = 0; p < PAIRS; p++) {
                special |= is_nan(Double::of(a[p])) | is_nan(Double::of(b(p)));
            }
            truth = compare(step.order, a, b, Double::of);
            return !special;
        default: return false;
    }
}
