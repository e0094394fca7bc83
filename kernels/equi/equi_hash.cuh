// The bijection that mixes keys of equi-joins. Partitions and slots are chosen by bits of the mixed key; since no two
// keys have the same mixed key, it represents the key until the output needs the key itself.
#pragma once

#include "shared/common.cuh"

// Xor-shifts and odd multipliers, each of which is invertible.
__device__ __forceinline__ u32 mix(u32 key) {
    key = (key ^ key >> 16) * 0x7FEB352Du;
    key = (key ^ key >> 15) * 0x846CA68Bu;
    return key ^ key >> 16;
}

__device__ __forceinline__ u32 unmix(u32 mixed) {
    mixed = (mixed ^ mixed >> 16) * 0x43021123u;
    mixed = (mixed ^ mixed >> 15 ^ mixed >> 30) * 0x1D69E2A5u;
    return mixed ^ mixed >> 16;
}

__device__ __forceinline__ u64 mix(u64 key) {
    key = (key ^ key >> 32) * 0xD6E8FEB86659FD93ull;
    key = (key ^ key >> 32) * 0xD6E8FEB86659FD93ull;
    return key ^ key >> 32;
}

__device__ __forceinline__ u64 unmix(u64 mixed) {
    mixed = (mixed ^ mixed >> 32) * 0xCFEE444D8B59A89Bull;
    mixed = (mixed ^ mixed >> 32) * 0xCFEE444D8B59A89Bull;
    return mixed ^ mixed >> 32;
}
