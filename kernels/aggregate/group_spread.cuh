// The partitions of group_spread.
#pragma once

#include "shared/tile.cuh"

// The maximum number of partitions. At least 48 of them have ids, unless ids are few.
constexpr u32 PARTITIONS = 96;

// The partition of an id is the id without its lowest bits. Ids after the last partition are in the last.
struct PartitionOf {
    u32 first_key, first_bit;

    __device__ __forceinline__ u32 operator()(u32 key) const { return min((key - first_key) >> first_bit, PARTITIONS - 1); }
};
