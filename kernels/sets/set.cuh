// Shared by all set joins ([B] chapters 4 to 6): the layout of a side in memory, and the predicate.
//
// Elements are numbered by ascending frequency in the build side, whose sets are ordered by group and size.
// A set of the probe side omits the elements that the build side lacks, but its size counts them.
#pragma once

#include "shared/tile.cuh"

// No set, no element.
constexpr u32 NONE = 0xFFFFFFFFu;

// Set i is elements[offsets[i] .. offsets[i + 1]], ascending and distinct; sizes[i] is the size that the predicate
// reads. Kernels that assign probe sets to blocks begin with set `first`.
struct Sets {
    const u32* offsets;
    const u32* elements;
    const u32* sizes;
    u32 n;
    u32 first;

    __device__ __forceinline__ const u32* of(u32 set) const { return elements + offsets[set]; }
    __device__ __forceinline__ u32 length(u32 set) const { return offsets[set + 1] - offsets[set]; }
};

// The condition of a predicate on the overlap o of two sets, given their sizes (a of the probe set, b of the build
// set).
enum Kind : u32 {
    CONTAINED = 0,  // o >= a: the build set contains the probe set
    CONTAINS = 1,   // o >= b
    OVERLAP = 2,    // o >= p
    JACCARD = 3,    // o / (a + b - o) >= threshold
    DICE = 4,       // 2 o / (a + b) >= threshold
    COSINE = 5,     // o / sqrt(a b) >= threshold
    DEGREE = 6      // o / min(a, b) >= threshold
};

// A pair matches by the threshold, with the host's rounding (src/ir/set_predicate.rs): `strict` stands for `>`. Filters
// use p / q instead, which from JACCARD on is a little less than the threshold, so that integer tests reject no match;
// p and q are at most 2^30 there. Sizes are below 2^32. From OVERLAP on sets without a common element never match,
// whatever the threshold: no index would find them.
struct Measure {
    u32 kind, strict, p, q;
    f64 threshold;

    // Whether an overlap of `o` may be enough. Monotonic: growing in o, falling in each size alone.
    __device__ __forceinline__ bool may_pass(u32 o, u32 a, u32 b) const {
        if (kind >= OVERLAP && o == 0) {
            return false;
        }
        switch (kind) {
            case CONTAINED: return o >= a;
            case CONTAINS: return o >= b;
            case OVERLAP: return o >= p;
            case JACCARD: return u64(o) * (u64(q) + p) >= u64(p) * (u64(a) + b);
            case DICE: return u64(o) * (2 * u64(q)) >= u64(p) * (u64(a) + b);
            case COSINE: {
                const u64 scaled = u64(o) * q;
                return u128(scaled) * scaled >= u128(u64(p) * p) * (u64(a) * b);
            }
            default: return u64(o) * q >= u64(p) * min(a, b);
        }
    }

    // Whether an overlap of `o` is enough.
    __device__ __forceinline__ bool passes(u32 o, u32 a, u32 b) const {
        return may_pass(o, a, b) && (kind < JACCARD || reaches(o, a, b));
    }

    // The least overlap that is enough, or one above min(a, b) if none is. Does not fall as b grows, up to min(a, b).
    __device__ __forceinline__ u32 need(u32 a, u32 b) const {
        switch (kind) {
            case CONTAINED: return a;
            case CONTAINS: return b;
            case OVERLAP: return max(p, 1u);
            default: break;
        }
        // Rounding may put the estimate off by a step or two at most.
        const u32 most = min(a, b);
        const f64 guess = min(about(a, b), f64(most));
        u32 o = max(u32(guess), 1u);
        while (o > 1 && reaches(o - 1, a, b)) {
            o--;
        }
        while (o <= most && !reaches(o, a, b)) {
            o++;
        }
        return o;
    }

private:
    // SetMeasure::degree and the comparison, for o > 0: the host's operations in its order, each rounded.
    __device__ __forceinline__ bool reaches(u32 o, u32 a, u32 b) const {
        const f64 together = f64(u64(a) + b);
        f64 shared = f64(o);
        f64 of = f64(min(a, b));
        if (kind == JACCARD) {
            of = f64(u64(a) + b - o);
        } else if (kind == DICE) {
            shared = __dmul_rn(2.0, shared);
            of = together;
        } else if (kind == COSINE) {
            of = __dsqrt_rn(__dmul_rn(f64(a), f64(b)));
        }
        const f64 degree = __ddiv_rn(shared, of);
        return strict != 0 ? degree > threshold : degree >= threshold;
    }

    // An estimate of the overlap at which the degree equals the threshold.
    __device__ __forceinline__ f64 about(u32 a, u32 b) const {
        const f64 together = f64(u64(a) + b);
        switch (kind) {
            case JACCARD: return threshold / (1.0 + threshold) * together;
            case DICE: return threshold * together / 2.0;
            case COSINE: return threshold * sqrt(f64(a) * f64(b));
            default: return threshold * f64(min(a, b));
        }
    }
};
