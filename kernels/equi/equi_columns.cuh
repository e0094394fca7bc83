// Payload columns of join kernels: any number of them, described in device memory.
#pragma once

#include "shared/common.cuh"

// An input column and its output. Values have 4, 8 or 16 bytes and are aligned to their size; `in` may be null where a
// kernel says so. In memory: three words of 64 bits.
struct Column {
    const void* in;
    void* out;
    u64 width;
};
static_assert(sizeof(Column) == 24, "three words");

// Calls `with` with a value of the column's type.
template <typename With>
__device__ __forceinline__ void with_width(const Column& column, With with) {
    switch (column.width) {
        case 4: with(u32{}); break;
        case 8: with(u64{}); break;
        default: with(uint4{}); break;
    }
}

// Hides from the compiler that a key is loop-invariant: it would compute values that depend on it before the loop, and
// keep them in registers.
__device__ __forceinline__ u32 same_key(u32 key) {
    asm volatile("" : "+r"(key));
    return key;
}

__device__ __forceinline__ u64 same_key(u64 key) {
    asm volatile("" : "+l"(key));
    return key;
}

// Hides from the compiler that packed words are the same for every column: it would unpack them before the loop, and
// run out of registers.
template <u32 WORDS>
__device__ __forceinline__ void keep_packed(u32 (&words)[WORDS]) {
#pragma unroll
    for (u32 i = 0; i < WORDS; ++i) {
        asm volatile("" : "+r"(words[i]));
    }
}
