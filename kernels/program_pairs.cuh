// Where the values of a lane's 16 pairs lie: in a range of sorted positions beside one searching position, or anywhere.
#pragma once

#include "program.cuh"

// Pairs of a lane that a step is decoded once for; a set of them is a mask.
constexpr u32 PAIRS = 16;
constexpr u32 ALL_PAIRS = (1u << PAIRS) - 1;

// `bit(p)` for each pair.
template <typename Bit>
__device__ __forceinline__ u32 each_bit(Bit bit) {
    u32 bits = 0;
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        bits |= u32(bit(p)) << p;
    }
    return bits;
}

// A value of up to 32 bits, from the word in memory that it lies in.
__device__ __forceinline__ u32 narrow_at(const ProgramColumn& column, u32 width, u32 position) {
    const u64 bit = u64(position) * width;
    return __ldg(static_cast<const u32*>(column.values) + bit / 32) >> bit % 32;
}

// One value of a column that is no bitmap.
__device__ __forceinline__ u64 load_word(const ProgramColumn& column, u32 position) {
    const Kind kind = Kind(column.kind);
    const u32 width = width_of(kind);
    return width == 64 ? __ldg(static_cast<const u64*>(column.values) + position) : Extension(kind)(narrow_at(column, width, position));
}

// The values of a column that is no bitmap, at `position(p)`.
template <typename Position>
__device__ __forceinline__ void load_words(const ProgramColumn& column, Position position, u64 (&words)[PAIRS]) {
    const Kind kind = Kind(column.kind);
    const u32 width = width_of(kind);
    if (width == 64) {
#pragma unroll
        for (u32 p = 0; p < PAIRS; p++) {
            words[p] = __ldg(static_cast<const u64*>(column.values) + position(p));
        }
        return;
    }
    const Extension extension(kind);
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        words[p] = extension(narrow_at(column, width, position(p)));
    }
}

// Sorted positions `base + p * step` beside searching position `searching`. `whole`: no lane's pairs leave the sorted side
// and the step is 1; elsewhere the last position stands for those beyond it.
struct RangePairs {
    u32 searching, base, step, last;
    bool whole;

    __device__ __forceinline__ u32 sorted_at(u32 p) const { return min(base + p * step, last); }

    __device__ __forceinline__ void sorted_words(const ProgramColumn& column, u64 (&words)[PAIRS]) const {
        if (whole && width_of(Kind(column.kind)) == 64) {
            const u64* const values = static_cast<const u64*>(column.values) + base;
#pragma unroll
            for (u32 p = 0; p < PAIRS; p++) {
                words[p] = __ldg(values + p);
            }
        } else {
            load_words(column, [&](u32 p) { return sorted_at(p); }, words);
        }
    }

    __device__ __forceinline__ u32 sorted_bits(const u32* bits) const {
        if (step == 1) {
            const u32 at = min(base, last) / 32;
            return __funnelshift_r(__ldg(bits + at), __ldg(bits + min(at + 1, last / 32)), base) & ALL_PAIRS;
        }
        return each_bit([&](u32 p) { return bit_at(bits, sorted_at(p)); });
    }

    __device__ __forceinline__ void searching_words(const ProgramColumn& column, u64 (&words)[PAIRS]) const {
        const u64 word = load_word(column, searching);
#pragma unroll
        for (u32 p = 0; p < PAIRS; p++) {
            words[p] = word;
        }
    }

    __device__ __forceinline__ u32 searching_bits(const u32* bits) const { return bit_at(bits, searching) ? ALL_PAIRS : 0; }
};

// The pairs `first + 32 p` of a list of `last + 1`; the last one stands for those beyond it.
struct ListedPairs {
    const u32* sorted_rows;
    const u32* searching_rows;
    u32 first, last;

    __device__ __forceinline__ u32 pair(u32 p) const { return min(first + p * WARP, last); }

    __device__ __forceinline__ void sorted_words(const ProgramColumn& column, u64 (&words)[PAIRS]) const {
        load_words(column, [&](u32 p) { return __ldg(sorted_rows + pair(p)); }, words);
    }

    __device__ __forceinline__ u32 sorted_bits(const u32* bits) const {
        return each_bit([&](u32 p) { return bit_at(bits, __ldg(sorted_rows + pair(p))); });
    }

    __device__ __forceinline__ void searching_words(const ProgramColumn& column, u64 (&words)[PAIRS]) const {
        load_words(column, [&](u32 p) { return __ldg(searching_rows + pair(p)); }, words);
    }

    __device__ __forceinline__ u32 searching_bits(const u32* bits) const {
        return each_bit([&](u32 p) { return bit_at(bits, __ldg(searching_rows + pair(p))); });
    }
};
