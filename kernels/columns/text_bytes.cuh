// Loads of bytes at any address, by loads of aligned words.
#pragma once

#include "shared/common.cuh"

// "No row": its value is empty.
constexpr u32 NO_ROW = 0xFFFFFFFFu;

// `count` bytes (1 to 16) from byte `at` on, the first one lowest, and zeros above. A word that holds none of them is
// not read.
__device__ __forceinline__ u128 load_bytes(const u32* __restrict__ bytes, u32 at, u32 count) {
    if (at % 16 == 0 && count == 16) {
        const uint4 word = reinterpret_cast<const uint4*>(bytes)[at / 16];
        return (u128)((u64)word.w << 32 | word.z) << 64 | ((u64)word.y << 32 | word.x);
    }
    const u32* const from = bytes + at / 4;
    const u32 used = (at % 4 + count + 3) / 4;
    u32 in[5];
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
        in[k] = k < used ? from[k] : 0;
    }
    u32 out[4];
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        out[k] = __funnelshift_r(in[k], in[k + 1], at % 4 * 8);
    }
    const u128 word = (u128)((u64)out[3] << 32 | out[2]) << 64 | ((u64)out[1] << 32 | out[0]);
    return word & (~(u128)0 >> (128 - 8 * count));
}
