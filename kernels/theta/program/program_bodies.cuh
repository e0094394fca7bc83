// The operations of steps on the words of a lane's 16 pairs: unrolled over the pairs where the code is short, otherwise
// a loop.
#pragma once

#include "theta/program/program_pairs.cuh"
#include "theta/program/program_values.cuh"

// `a[p] = with(a[p], b(p))`.
template <typename Second, typename With>
__device__ __forceinline__ void each_pair(u64 (&a)[PAIRS], Second b, With with) {
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        a[p] = with(a[p], b(p));
    }
}

// `a[p] = with(a[p], b(p))` for the first COUNT pairs; returns the pairs whose NaN the host must decide.
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

// `some()` processes the first COUNT of the words in `a` and `b` and returns their faults. The words rotate, so that
// the code exists once.
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

template <typename Second, typename Key>
__device__ __forceinline__ u32 compare(Order order, const u64 (&a)[PAIRS], Second b, Key key) {
    switch (order) {
        case Order::LESS: return each_bit([&](u32 p) { return key(a[p]) < key(b(p)); });
        case Order::GREATER: return each_bit([&](u32 p) { return key(a[p]) > key(b(p)); });
        default: return each_bit([&](u32 p) { return key(a[p]) == key(b(p)); });
    }
}

// A comparison of floats; `nan` is set if an operand is NaN, and the result is then invalid.
template <typename Float, typename Second>
__device__ __forceinline__ u32 compare_floats(Order order, const u64 (&a)[PAIRS], Second b, bool& nan) {
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        nan |= is_nan(Float::of(a[p])) | is_nan(Float::of(b(p)));
    }
    return compare(order, a, b, Float::of);
}

// The most frequent arithmetic, with one word for each pair. Floats have the GPU's arithmetic: a NaN propagates as some
// NaN until a comparison reads it.
template <typename Second>
__device__ __forceinline__ void run_arithmetic(Body body, u64 (&a)[PAIRS], Second b) {
    const auto doubles = [&](auto with) {
        each_pair(a, b, [&](u64 x, u64 y) { return Double::word(with(Double::of(x), Double::of(y))); });
    };
    const auto singles = [&](auto with) {
        each_pair(a, b, [&](u64 x, u64 y) { return Single::word(with(Single::of(x), Single::of(y))); });
    };
    switch (body) {
        case Body::ADD_INT: each_pair(a, b, [](u64 x, u64 y) { return x + y; }); return;
        case Body::SUB_INT: each_pair(a, b, [](u64 x, u64 y) { return x - y; }); return;
        case Body::MUL_INT: each_pair(a, b, [](u64 x, u64 y) { return x * y; }); return;
        case Body::ADD_F64: doubles(Double::add); return;
        case Body::SUB_F64: doubles(Double::sub); return;
        case Body::MUL_F64: doubles(Double::mul); return;
        case Body::ADD_F32: singles(Single::add); return;
        case Body::SUB_F32: singles(Single::sub); return;
        default: singles(Single::mul); return;
    }
}

// The comparisons of the same kind; one that reads a NaN sets `nan`.
template <typename Second>
__device__ __forceinline__ u32 run_comparison(Body body, Order order, const u64 (&a)[PAIRS], Second b, bool& nan) {
    switch (body) {
        case Body::COMPARE_SIGNED: return compare(order, a, b, [](u64 word) { return i64(word); });
        case Body::COMPARE_F64: return compare_floats<Double>(order, a, b, nan);
        default: return compare_floats<Single>(order, a, b, nan);
    }
}

template <typename Second>
__device__ __forceinline__ u32 run_common(Body body, Order order, u64 (&a)[PAIRS], Second b, bool& nan) {
    if (body >= Body::COMPARE_SIGNED) {
        return run_comparison(body, order, a, b, nan);
    }
    if (body >= Body::ADD_INT) {
        run_arithmetic(body, a, b);
    }
    return 0;
}
