// Text and binary as tuples of words that compare as the values do: the bytes in big-endian words, zero padding, and
// the length in the lowest byte of the last word.
//
// A tuple of `k` words holds up to 8k - 1 bytes. Values that fit are equal exactly where their tuples are: the length
// distinguishes padding from zero bytes. Tuples also have the order of the values. If padded bytes differ, either both
// bytes belong to the values, or one value is a prefix of the other, whose byte is greater than 0. If no padded byte
// differs, one value is a prefix of the other, and the lengths decide. A longer value of the probe side is truncated,
// with a length of 8k, more than any value that fits: it equals none of them, and is greater than those whose padded
// bytes are its first bytes.
#pragma once

#include "columns/text_bytes.cuh"
#include "shared/tile.cuh"

// Where a column's values begin and end.
struct Spans {
    const u32* offsets;
    u32 width;

    __device__ __forceinline__ u32 start(u32 i) const { return offsets == nullptr ? i * width : offsets[i]; }
};

// Reverses up to 8 bytes: the first byte, which is the lowest, becomes the highest of the word.
__device__ __forceinline__ u64 big_endian(u64 low_first) {
    return (u64)__byte_perm((u32)low_first, 0, 0x0123) << 32 | __byte_perm((u32)(low_first >> 32), 0, 0x0123);
}

// Word `j` of the tuples of `words` words; 0 for a NULL, and `valid` may be null. `offsets` are null for values of
// `width` bytes.
// Bound: 8 bytes of each value and its offsets read, 8 bytes written a row. Launch: blocks of 256, a block for each
// 1024 rows; all bytes together are fewer than 2^31.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_words(const u32* __restrict__ offsets, u32 width, const u32* __restrict__ bytes, const u32* __restrict__ valid,
               u32 j, u32 words, u64* __restrict__ out, u32 n) {
    const Spans spans{offsets, width};
    each_row(
        n,
        [=](u32 i) {
            if (!bit_at(valid, i)) {
                return 0ull;
            }
            const u32 start = spans.start(i);
            const u32 length = spans.start(i + 1) - start;
            const bool last = j + 1 == words;
            const u32 count = length > 8 * j ? min(length - 8 * j, last ? 7 : 8) : 0;
            const u64 word = count > 0 ? big_endian((u64)load_bytes(bytes, start + 8 * j, count)) : 0;
            return last ? word | min(length, 8 * words) : word;
        },
        [=](u32 i, u64 word) { out[i] = word; });
}

// The same for views that all hold their whole value: `views` are a length and 12 bytes each. Bound: 16 bytes read, 8
// bytes written a row.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_words_views(const uint4* __restrict__ views, const u32* __restrict__ valid, u32 j, u32 words, u64* __restrict__ out,
                     u32 n) {
    each_row(
        n,
        [=](u32 i) {
            if (!bit_at(valid, i)) {
                return 0ull;
            }
            const uint4 view = views[i];
            const bool last = j + 1 == words;
            const u32 length = view.x;
            const u32 count = length > 8 * j ? min(length - 8 * j, last ? 7 : 8) : 0;
            const u64 held = j == 0 ? (u64)view.z << 32 | view.y : j == 1 ? view.w : 0;
            const u64 word = count > 0 ? big_endian(held & ~0ull >> (64 - 8 * count)) : 0;
            return last ? word | min(length, 8 * words) : word;
        },
        [=](u32 i, u64 word) { out[i] = word; });
}

// Raises `longest` to the maximum length over the lanes.
__device__ __forceinline__ void add_longest(u32 mine, u32* longest) {
    for (u32 half = WARP / 2; half > 0; half /= 2) {
        mine = max(mine, __shfl_down_sync(ALL_LANES, mine, half));
    }
    if (threadIdx.x % WARP == 0) {
        atomicMax(longest, mine);
    }
}

// Raises `longest` to the length of the longest value that is not NULL. `valid` may be null. Bound: 4 bytes read a row.
// Launch: blocks of 256, a grid of any size (8 blocks a multiprocessor); `longest` is zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_longest(const u32* __restrict__ offsets, const u32* __restrict__ valid, u32* longest, u32 n) {
    u32 mine = 0;
    for (u32 i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) {
        mine = max(mine, bit_at(valid, i) ? offsets[i + 1] - offsets[i] : 0);
    }
    add_longest(mine, longest);
}

// The same for views. Bound: a sector of two views read for two rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_longest_views(const uint4* __restrict__ views, const u32* __restrict__ valid, u32* longest, u32 n) {
    u32 mine = 0;
    for (u32 i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) {
        mine = max(mine, bit_at(valid, i) ? views[i].x : 0);
    }
    add_longest(mine, longest);
}
