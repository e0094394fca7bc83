// The values of a lane's 16 pairs: in a range of build positions with one probe position, or in a list of row ids.
#pragma once

#include "theta/program/program.cuh"

// Pairs of a lane for which a step is decoded once; a set of them is a mask.
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

// The same value, opaque to the compiler: values that depend on it are not computed ahead of all steps and kept in
// registers.
__device__ __forceinline__ u32 opaque(u32 value) {
    asm volatile("" : "+r"(value));
    return value;
}

// The same for a pointer, so that loads at constant distances use it as their base.
template <typename Value>
__device__ __forceinline__ const Value* opaque(const Value* pointer) {
    asm volatile("" : "+l"(pointer));
    return pointer;
}

// A value of up to 32 bits, from the word in memory that contains it.
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

// The bits of pairs at `position(p)`, some of them at a time, as the code exists several times.
template <typename Position>
__device__ __forceinline__ u32 scattered_bits(const u32* bits, Position position) {
    constexpr u32 SOME = 4;
    u32 all = 0;
#pragma unroll 1
    for (u32 first = 0; first < PAIRS; first += SOME) {
        u32 some = 0;
#pragma unroll
        for (u32 k = 0; k < SOME; k++) {
            const u32 at = position(first + k);
            some |= (__ldg(bits + at / 32) >> at % 32 & 1) << k;
        }
        all |= some << first;
    }
    return all;
}

// Build positions `base + p * step` with probe position `probe`. `aligned`: the same 16 positions for all lanes, from a
// multiple of 16 on, and none beyond the build side; otherwise positions beyond it are replaced by the last one.
struct RangePairs {
    // All pairs of a lane have one probe position.
    static constexpr bool ONE_ROW = true;

    u32 probe, base, step, last;
    bool aligned;

    // The words of a 64-bit column of the build side at contiguous positions.
    __device__ __forceinline__ bool in_line() const { return aligned; }

    __device__ __forceinline__ void wide_words(const ProgramColumn& column, u64 (&words)[PAIRS]) const {
        const ulonglong2* const vectors = opaque(static_cast<const ulonglong2*>(column.values) + base / 2);
#pragma unroll
        for (u32 p = 0; p < PAIRS; p += 2) {
            const ulonglong2 two = __ldg(vectors + p / 2);
            words[p] = two.x;
            words[p + 1] = two.y;
        }
    }

    __device__ __forceinline__ void build_words(const ProgramColumn& column, u64 (&words)[PAIRS]) const {
        if (aligned && width_of(Kind(column.kind)) == 32) {
            const uint4* const vectors = opaque(static_cast<const uint4*>(column.values) + base / 4);
            const u32 sign_mask = is_signed(Kind(column.kind)) ? ~0u : 0;
            const auto extension = [&](u32 low) { return u64(u32(i32(low) >> 31) & sign_mask) << 32 | low; };
#pragma unroll
            for (u32 p = 0; p < PAIRS; p += 4) {
                const uint4 four = __ldg(vectors + p / 4);
                words[p] = extension(four.x);
                words[p + 1] = extension(four.y);
                words[p + 2] = extension(four.z);
                words[p + 3] = extension(four.w);
            }
        } else {
            const u32 from = opaque(base);
            load_words(column, [&](u32 p) { return min(from + p * step, last); }, words);
        }
    }

    __device__ __forceinline__ u32 build_bits(const u32* bits) const {
        if (step == 1) {
            const u32 from = opaque(base);
            const u32 at = min(from, last) / 32;
            return __funnelshift_r(__ldg(bits + at), __ldg(bits + min(at + 1, last / 32)), from) & ALL_PAIRS;
        }
        const u32 from = opaque(base);
        return scattered_bits(bits, [&](u32 p) { return min(from + p * step, last); });
    }

    __device__ __forceinline__ u64 probe_word(const ProgramColumn& column, bool wide) const {
        return wide ? __ldg(static_cast<const u64*>(column.values) + probe) : load_word(column, probe);
    }

    __device__ __forceinline__ u32 probe_bits(const u32* bits) const { return bit_at(bits, probe) ? ALL_PAIRS : 0; }
};

// The pairs `first + 32 p` of a list of `last + 1`; pairs beyond it are replaced by the last one.
struct ListedPairs {
    static constexpr bool ONE_ROW = false;

    const u32* build_rows;
    const u32* probe_rows;
    u32 first, last;

    // The row of pair `p`.
    __device__ __forceinline__ auto at(const u32* rows) const {
        return [rows, from = opaque(first), last = last](u32 p) { return __ldg(rows + min(from + p * WARP, last)); };
    }

    __device__ __forceinline__ bool in_line() const { return false; }

    __device__ __forceinline__ void wide_words(const ProgramColumn&, u64 (&)[PAIRS]) const {}

    __device__ __forceinline__ void build_words(const ProgramColumn& column, u64 (&words)[PAIRS]) const {
        load_words(column, at(build_rows), words);
    }

    __device__ __forceinline__ u32 build_bits(const u32* bits) const { return scattered_bits(bits, at(build_rows)); }

    __device__ __forceinline__ void probe_words(const ProgramColumn& column, u64 (&words)[PAIRS]) const {
        load_words(column, at(probe_rows), words);
    }

    __device__ __forceinline__ u32 probe_bits(const u32* bits) const {
        return scattered_bits(bits, at(probe_rows));
    }
};
