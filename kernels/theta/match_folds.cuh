// Folds of matches that a walk finds: the number of a fold, and its value in 16 bytes.
#pragma once

#include "theta/folds.cuh"

// A value of any fold, aligned as the widest one is.
struct __align__(16) AnyValue {
    u64 low, high;
};

template <typename T>
__device__ __forceinline__ AnyValue any_value(T value) {
    static_assert(sizeof(T) <= sizeof(AnyValue), "it fits");
    union {
        AnyValue any;
        T value;
    } of = {{0, 0}};
    of.value = value;
    return of.any;
}

template <typename T>
__device__ __forceinline__ T value_of(AnyValue any) {
    union {
        AnyValue any;
        T value;
    } of = {any};
    return of.value;
}

// A fold by its number, for kernels whose work is elsewhere.
struct AnyFold {
    enum Kind : u32 { SUM_U32 = 0, SUM_U64 = 1, SUM_U128 = 2, SUM_F64 = 3, EXTREME = 4 };

    const void* values;
    u32 kind;

    // Calls `with` with the fold.
    template <typename With>
    __device__ __forceinline__ static auto as(u32 kind, With with) {
        switch (kind) {
            case SUM_U32: return with(Sums<u32>());
            case SUM_U64: return with(Sums<u64>());
            case SUM_U128: return with(Sums<u128>());
            case SUM_F64: return with(Sums<f64>());
            default: return with(Extremes());
        }
    }

    __device__ __forceinline__ AnyValue zero() const {
        return as(kind, [](auto fold) { return any_value(fold.zero()); });
    }
    __device__ __forceinline__ AnyValue at(u32 i) const {
        return as(kind, [=](auto fold) { return any_value(static_cast<const typename decltype(fold)::Value*>(values)[i]); });
    }
    __device__ __forceinline__ AnyValue combine(AnyValue a, AnyValue b) const {
        return as(kind, [=](auto fold) {
            typedef typename decltype(fold)::Value Value;
            return any_value(fold.combine(value_of<Value>(a), value_of<Value>(b)));
        });
    }
};
