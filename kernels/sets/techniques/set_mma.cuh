// Tile products on tensor cores by one warp. A lane holds words of rows lane / 4, and of the result, in each row,
// columns lane % 4 * 2 and the next.
#pragma once

#include "shared/common.cuh"

// sums += rows of 16 bytes, of which a lane has four in `a`, times columns of 16 bytes.
__device__ __forceinline__ void mma_bytes(u32 (&sums)[2], u32 a, u32 b) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(sums[0]), "+r"(sums[1])
        : "r"(a), "r"(b));
}

// sums += the number of common bits among 256, for 16 rows: the second 8 rows are in `below`, words of the second 128
// bits in a[1] and b[1].
__device__ __forceinline__ void mma_and(u32 (&sums)[2], u32 (&sums_below)[2], const u32 (&a)[2], const u32 (&below)[2],
                                        const u32 (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums_below[0]), "+r"(sums_below[1])
        : "r"(a[0]), "r"(below[0]), "r"(a[1]), "r"(below[1]), "r"(b[0]), "r"(b[1]));
#else
    // Turing has no such product; the kernel must not be launched there.
    __trap();
#endif
}
