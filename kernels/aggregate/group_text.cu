// Short text as numbers, which are grouped like other integers. A value of at most `digits` bytes becomes a number of
// `digits` digits of base 257: the digit of a byte is the byte plus one, and the digits after the last byte are 0. So
// numbers are equal exactly where values are, even with zero bytes, and have their order. Seven digits are below 2^57,
// three below 2^25.
#include "columns/text_bytes.cuh"
#include "shared/tile.cuh"

// The number of a value from its first bytes, the first one lowest; bytes after its last one are ignored.
__device__ __forceinline__ u64 number_of(u64 bytes, u32 length, u32 digits) {
    u64 number = 0;
    for (u32 k = 0; k < digits; k++) {
        const u64 digit = k < length ? (bytes >> 8 * k & 0xFF) + 1 : 0;
        number = number * 257 + digit;
    }
    return number;
}

// group_text_numbers*: the numbers of values of at most `digits` bytes, 0 for NULLs; `digits` is 1 to 7, for numbers of
// 32 bits at most 3. `valid` may be null. Bound: a value's bytes and an offset read, a number written a row. Launch:
// blocks of 256, a block for each 1024 rows; all bytes together are fewer than 2^31.
//
// group_text_views*: the same for views, a length and up to 12 bytes each. Bound: 16 bytes read, a number written a
// row.
#define NUMBERS(bits, T)                                                                                             \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        group_text_numbers##bits(const u32* __restrict__ offsets, const u32* __restrict__ bytes,                     \
                                 const u32* __restrict__ valid, u32 digits, T* __restrict__ out, u32 n) {            \
        each_row(                                                                                                    \
            n,                                                                                                       \
            [=](u32 i) {                                                                                             \
                const u32 start = offsets[i];                                                                        \
                const u32 length = bit_at(valid, i) ? min(offsets[i + 1] - start, digits) : 0;                       \
                const u64 held = length > 0 ? (u64)load_bytes(bytes, start, length) : 0;                             \
                return (T)number_of(held, length, digits);                                                           \
            },                                                                                                       \
            [=](u32 i, T number) { out[i] = number; });                                                              \
    }                                                                                                                \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        group_text_views##bits(const uint4* __restrict__ views, const u32* __restrict__ valid, u32 digits,           \
                               T* __restrict__ out, u32 n) {                                                         \
        each_row(                                                                                                    \
            n,                                                                                                       \
            [=](u32 i) {                                                                                             \
                const uint4 view = views[i];                                                                         \
                const u32 length = bit_at(valid, i) ? view.x : 0;                                                    \
                return (T)number_of((u64)view.z << 32 | view.y, length, digits);                                     \
            },                                                                                                       \
            [=](u32 i, T number) { out[i] = number; });                                                              \
    }

NUMBERS(32, u32)
NUMBERS(64, u64)
