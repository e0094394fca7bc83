// Shared by all kernel families: type names, bitmaps in Arrow's bit order, comparisons of order keys.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef double f64;
typedef __int128 i128;
typedef unsigned __int128 u128;

// "In no group": the row can match nothing.
constexpr u32 NO_GROUP = 0xFFFFFFFFu;

// Comparisons with the host's numbers. They mean `build key OP probe key`.
enum Op : u32 { LT = 0, LT_EQ = 1, GT = 2, GT_EQ = 3, EQ = 4, NOT_EQ = 5 };

// Bit `i` of a bitmap; a null bitmap has all bits set.
__device__ __forceinline__ bool bit_at(const u32* bits, u32 i) {
    return bits == nullptr || (bits[i / 32] >> (i % 32) & 1u) != 0;
}

__device__ __forceinline__ bool holds(u32 op, u64 left, u64 right) {
    switch (op) {
        case LT: return left < right;
        case LT_EQ: return left <= right;
        case GT: return left > right;
        case GT_EQ: return left >= right;
        case EQ: return left == right;
        default: return left != right;
    }
}

// Loads the present value. The access is volatile, since compilers may merge repeated loads by __ldcv: loops that wait
// for a value then never ended.
template <typename Word>
__device__ __forceinline__ Word look_now(const Word* at) {
    return *static_cast<const volatile Word*>(at);
}
