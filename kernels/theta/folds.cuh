// Folds of values: what their neutral element is, and how two are combined.
#pragma once

#include "shared/common.cuh"
#include "shared/tile.cuh"

// Sums that wrap, or of floats. Those of a range tree are added in an order that depends on positions and keys alone; those of a walk depend on its
// slices too.
template <typename T>
struct Sums {
    typedef T Value;
    static __device__ __forceinline__ T zero() { return T(0); }
    static __device__ __forceinline__ T combine(T a, T b) { return a + b; }
};

// An order key and its row; "no row" orders last.
struct __align__(16) KeyedRow {
    u64 key;
    u32 row;
    u32 unused;
};

// The least (key, row).
struct Extremes {
    typedef KeyedRow Value;
    static __device__ __forceinline__ KeyedRow zero() { return {~0ull, ~0u, 0}; }
    static __device__ __forceinline__ KeyedRow combine(KeyedRow a, KeyedRow b) {
        return b.key < a.key || (b.key == a.key && b.row < a.row) ? b : a;
    }
};

template <typename T, typename Shuffle>
__device__ __forceinline__ T shuffled(T value, Shuffle shuffle) {
    static_assert(sizeof(T) % 4 == 0, "whole words");
    union {
        T value;
        u32 words[sizeof(T) / 4];
    } of = {value};
#pragma unroll
    for (u32 w = 0; w < sizeof(T) / 4; w++) {
        of.words[w] = shuffle(of.words[w]);
    }
    return of.value;
}

template <typename T>
__device__ __forceinline__ T shuffled_up(T value, u32 lanes) {
    return shuffled(value, [=](u32 word) { return __shfl_up_sync(ALL_LANES, word, lanes); });
}

// The fold of a value of each lane, in every lane, in an order that depends on the lanes alone.
template <typename Fold>
__device__ __forceinline__ typename Fold::Value warp_fold(typename Fold::Value value) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = Fold::combine(value, shuffled(value, [=](u32 word) { return __shfl_xor_sync(ALL_LANES, word, distance); }));
    }
    return value;
}
