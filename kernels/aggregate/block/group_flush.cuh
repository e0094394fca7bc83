// The flush of a block's partial aggregates from shared memory to the groups in global memory.
#pragma once

#include "aggregate/block/group_update.cuh"

// An accumulator's arrays in shared memory. HALVES: sums are words of 32 bits (Where::HALVES).
template <bool HALVES>
struct Partials {
    u32* words;
    u32 places;

    __device__ __forceinline__ u64 halves(u32 place) const { return words[place] | (u64)words[places + place] << 32; }

    __device__ __forceinline__ u64 word(u32 update, u32 place) const {
        switch (update) {
            case COUNT:
            case FIRST_ROW:
            case LAST_ROW: return words[place];
            case AND:
            case OR:
            case XOR: return halves(place);
            case SUM:
                if (HALVES) {
                    return halves(place);
                }
            default: return reinterpret_cast<const u64*>(words)[place];
        }
    }
};

// False for results of more than a word, and for those that need comparisons of values.
__device__ __forceinline__ bool is_plain(u32 update) {
    return update != SUM128 && update != SUM256 && update != ARG_MIN && update != ARG_MAX;
}

__device__ __forceinline__ u64 combine(u32 update, u64 a, u64 b) {
    switch (update) {
        case COUNT:
        case SUM: return a + b;
        case MIN:
        case FIRST_ROW: return min(a, b);
        case MAX:
        case LAST_ROW: return max(a, b);
        case AND: return a & b;
        case OR: return a | b;
        case XOR: return a ^ b;
        default: return (u64)__double_as_longlong(__longlong_as_double((i64)a) + __longlong_as_double((i64)b));
    }
}

__device__ __forceinline__ void merge_word(const Accumulator& of, u32 group, u64 word) {
    u64* const at = static_cast<u64*>(of.out) + group;
    switch (of.update) {
        case COUNT:
        case SUM: atomicAdd(at, word); return;
        case MIN: least(at, word); return;
        case MAX: greatest(at, word); return;
        case FIRST_ROW: atomicMin(static_cast<u32*>(of.out) + group, (u32)word); return;
        case LAST_ROW: atomicMax(static_cast<u32*>(of.out) + group, (u32)word); return;
        case AND: atomicAnd(at, word); return;
        case OR: atomicOr(at, word); return;
        case XOR: atomicXor(at, word); return;
        default: atomicAdd(reinterpret_cast<f64*>(at), __longlong_as_double((i64)word)); return;
    }
}

template <u32 WORDS64, bool HALVES>
__device__ __forceinline__ void merge_wide(const Accumulator& of, const Partials<HALVES>& partials, u64 capacity, u32 group,
                                           u32 place) {
    u64 number[WORDS64];
#pragma unroll
    for (u32 j = 0; j < WORDS64; j++) {
        if (HALVES) {
            const u32* low = partials.words + 2 * j * partials.places + place;
            number[j] = low[0] | (u64)low[partials.places] << 32;
        } else {
            number[j] = reinterpret_cast<const u64*>(partials.words)[j * partials.places + place];
        }
    }
    add_words(static_cast<u64*>(of.out) + group, capacity, number);
}

// Merges one place into its group.
template <bool HALVES>
__device__ __forceinline__ void merge_place(const Accumulator& of, const Partials<HALVES>& partials, u64 capacity, u32 group,
                                            u32 place) {
    if (is_plain(of.update)) {
        merge_word(of, group, partials.word(of.update, place));
    } else if (of.update == SUM128) {
        merge_wide<2>(of, partials, capacity, group, place);
    } else if (of.update == SUM256) {
        merge_wide<4>(of, partials, capacity, group, place);
    } else if (partials.words[place] != NOWHERE) {
        keep_better(static_cast<u32*>(of.out) + group, of, partials.words[place]);
    }
}

// Merges the 32 places from `first` on, one for each lane, into their group; called by the whole warp.
template <bool HALVES>
__device__ __forceinline__ void merge_copies(const Accumulator& of, const Partials<HALVES>& partials, u64 capacity, u32 group,
                                             u32 first) {
    const u32 lane = threadIdx.x % WARP;
    if (!is_plain(of.update)) {
        merge_place(of, partials, capacity, group, first + lane);
        return;
    }
    u64 word = partials.word(of.update, first + lane);
    for (u32 lanes = WARP / 2; lanes > 0; lanes /= 2) {
        word = combine(of.update, word, __shfl_xor_sync(ALL_LANES, word, lanes));
    }
    if (lane == 0) {
        merge_word(of, group, word);
    }
}
