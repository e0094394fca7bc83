// The parts that group_spread brings rows to.
#pragma once

#include "shared/tile.cuh"

// Most parts: 48 or more of them have ids, unless these are few.
constexpr u32 PARTS = 96;

// The part of an id is that less its lowest bits. What lies behind the last part is in the last.
struct Parts {
    u32 first_key, first_bit;

    __device__ __forceinline__ u32 operator()(u32 key) const { return min((key - first_key) >> first_bit, PARTS - 1); }
};
