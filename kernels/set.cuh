// What all set joins share ([B] chapters 4 to 6): how a side lies in memory, and the predicate in integers.
//
// Elements are numbers by ascending frequency in the sorted side, whose sets are ordered by size. A searching set leaves out
// the elements that the sorted side lacks, but its size counts them.
#pragma once

#include "tile.cuh"

// No set, no element.
constexpr u32 NONE = 0xFFFFFFFFu;

// Set i is elements[offsets[i] .. offsets[i + 1]], ascending and distinct; sizes[i] is what the predicate reads.
struct Sets {
    const u32* offsets;
    const u32* elements;
    const u32* sizes;
    u32 n;
    u32 unused;

    __device__ __forceinline__ const u32* of(u32 set) const { return elements + offsets[set]; }
    __device__ __forceinline__ u32 length(u32 set) const { return offsets[set + 1] - offsets[set]; }
};

// What a pair of sizes (a of the searching set, b of the sorted one) asks of the overlap o; t is p / q.
enum Kind : u32 {
    CONTAINED = 0,  // o >= a: the searching set lies in the sorted one
    CONTAINS = 1,   // o >= b
    OVERLAP = 2,    // o >= p
    JACCARD = 3,    // o / (a + b - o) >= t
    DICE = 4,       // 2 o / (a + b) >= t
    COSINE = 5,     // o / sqrt(a b) >= t
    DEGREE = 6      // o / min(a, b) >= t
};

// Exact for sizes below 2^31, p and q of 32 bits, q > 0. `strict`: `>` for `>=` (kinds from OVERLAP on). From OVERLAP on sets
// without a common element never match, whatever the threshold: no index would find them.
struct Measure {
    u32 kind, strict, p, q;

    template <typename T>
    __device__ __forceinline__ bool reaches(T left, T right) const {
        return left > right || (strict == 0 && left == right);
    }

    // Whether an overlap of `o` is enough.
    __device__ __forceinline__ bool passes(u32 o, u32 a, u32 b) const {
        if (kind >= OVERLAP && o == 0) {
            return false;
        }
        switch (kind) {
            case CONTAINED: return o >= a;
            case CONTAINS: return o >= b;
            case OVERLAP: return reaches(o, p);
            case JACCARD: return reaches(u64(o) * (u64(q) + p), u64(p) * (u64(a) + b));
            case DICE: return reaches(u64(o) * (2 * u64(q)), u64(p) * (u64(a) + b));
            case COSINE: {
                const u64 scaled = u64(o) * q;
                return reaches(u128(scaled) * scaled, u128(u64(p) * p) * (u64(a) * b));
            }
            default: return reaches(u64(o) * q, u64(p) * min(a, b));
        }
    }

    // The least overlap that is enough, or one above min(a, b) where none is. Does not fall as b grows, up to min(a, b).
    __device__ __forceinline__ u32 need(u32 a, u32 b) const {
        switch (kind) {
            case CONTAINED: return a;
            case CONTAINS: return b;
            case OVERLAP: return least(p, 1);
            case JACCARD: return least(u64(p) * (u64(a) + b), u64(q) + p);
            case DICE: return least(u64(p) * (u64(a) + b), 2 * u64(q));
            case COSINE: return least_cosine(a, b);
            default: return least(u64(p) * min(a, b), q);
        }
    }

private:
    // The least o > 0 with o * unit >= wanted, or >.
    __device__ __forceinline__ u32 least(u64 wanted, u64 unit) const {
        const u64 whole = wanted / unit;
        const u64 o = whole + (strict != 0 || whole * unit != wanted ? 1 : 0);
        return u32(min(max(o, u64(1)), u64(NONE)));
    }

    // A root in doubles errs by less than one below 2^31; comparing exactly finds the neighbour that is meant.
    __device__ __forceinline__ u32 least_cosine(u32 a, u32 b) const {
        const u32 most = min(a, b);
        if (!passes(most, a, b)) {
            return most + 1;
        }
        u32 o = u32(min(sqrt(double(u64(a) * b)) * p / q, double(most)));
        while (o > 0 && passes(o - 1, a, b)) {
            o--;
        }
        while (!passes(o, a, b)) {
            o++;
        }
        return o;
    }
};
