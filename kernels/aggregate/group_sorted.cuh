// How a warp aggregates its share of rows that are in the order of their groups: by a segmented scan of 32 rows at a
// time, whose last lane carries over to the next 32. A State is the partial aggregate of some rows of a group.
#pragma once

#include "aggregate/block/group_flush.cuh"

// Rows of a warp, regardless of their groups: several warps share a group of many rows.
constexpr u32 SHARE_ROWS = 1024;

// Values of up to 64 bits, as words that `combine` folds.
template <u32 UPDATE>
struct WordFold {
    using State = u64;
    const Accumulator& of;

    static __device__ __forceinline__ State nothing() {
        return UPDATE == AND ? ~0ull : UPDATE == FIRST_ROW ? (u64)NO_GROUP : 0;
    }

    __device__ __forceinline__ State read(u32 i) const {
        if (UPDATE == COUNT) {
            return 1;
        }
        if (UPDATE == FIRST_ROW) {
            return i;
        }
        const u64 word = value_at(of.values, of.kind, i);
        return UPDATE == SUM_F64 ? (u64)__double_as_longlong(real(of.kind, word)) : word;
    }

    static __device__ __forceinline__ State from_below(State state, u32 lanes) {
        return __shfl_up_sync(ALL_LANES, state, lanes);
    }

    static __device__ __forceinline__ State of_lane(State state, u32 lane) { return __shfl_sync(ALL_LANES, state, lane); }

    __device__ __forceinline__ State fold(State earlier, State later) const { return combine(UPDATE, earlier, later); }

    __device__ __forceinline__ void store(u32 group, State state, u64) const {
        if (UPDATE == FIRST_ROW) {
            static_cast<u32*>(of.out)[group] = (u32)state;
        } else {
            static_cast<u64*>(of.out)[group] = state;
        }
    }

    __device__ __forceinline__ void merge(u32 group, State state, u64) const { merge_word(of, group, state); }
};

// Sums of two or four words.
template <u32 WORDS64>
struct WideFold {
    struct State {
        u64 words[WORDS64];
    };
    const Accumulator& of;

    static __device__ __forceinline__ State nothing() { return {}; }

    __device__ __forceinline__ State read(u32 i) const {
        const ulonglong2* const pairs = static_cast<const ulonglong2*>(of.values) + (u64)i * (WORDS64 / 2);
        State state;
#pragma unroll
        for (u32 j = 0; j < WORDS64 / 2; j++) {
            const ulonglong2 pair = __ldg(pairs + j);
            state.words[2 * j] = pair.x;
            state.words[2 * j + 1] = pair.y;
        }
        return state;
    }

    static __device__ __forceinline__ State from_below(State state, u32 lanes) {
#pragma unroll
        for (u32 j = 0; j < WORDS64; j++) {
            state.words[j] = __shfl_up_sync(ALL_LANES, state.words[j], lanes);
        }
        return state;
    }

    static __device__ __forceinline__ State of_lane(State state, u32 lane) {
#pragma unroll
        for (u32 j = 0; j < WORDS64; j++) {
            state.words[j] = __shfl_sync(ALL_LANES, state.words[j], lane);
        }
        return state;
    }

    __device__ __forceinline__ State fold(State earlier, State later) const {
        u64 carry = 0;
#pragma unroll
        for (u32 j = 0; j < WORDS64; j++) {
            const u64 with_carry = later.words[j] + carry;
            carry = with_carry < carry;
            later.words[j] = earlier.words[j] + with_carry;
            carry += later.words[j] < with_carry;
        }
        return later;
    }

    __device__ __forceinline__ void store(u32 group, State state, u64 capacity) const {
#pragma unroll
        for (u32 j = 0; j < WORDS64; j++) {
            static_cast<u64*>(of.out)[j * capacity + group] = state.words[j];
        }
    }

    __device__ __forceinline__ void merge(u32 group, State state, u64 capacity) const {
        add_words(static_cast<u64*>(of.out) + group, capacity, state.words);
    }
};

// The row of an extreme among values of up to 64 bits: the first row of the minimum, the last row of the maximum. Rows
// ascend.
template <bool GREATEST>
struct ExtremeFold {
    struct State {
        u64 key;
        u32 row;
    };
    const Accumulator& of;

    static __device__ __forceinline__ State nothing() { return {0, NO_GROUP}; }

    __device__ __forceinline__ State read(u32 i) const { return {order_key(of.kind, value_at(of.values, of.kind, i)), i}; }

    static __device__ __forceinline__ State from_below(State state, u32 lanes) {
        return {__shfl_up_sync(ALL_LANES, state.key, lanes), __shfl_up_sync(ALL_LANES, state.row, lanes)};
    }

    static __device__ __forceinline__ State of_lane(State state, u32 lane) {
        return {__shfl_sync(ALL_LANES, state.key, lane), __shfl_sync(ALL_LANES, state.row, lane)};
    }

    __device__ __forceinline__ State fold(State earlier, State later) const {
        const bool better = GREATEST ? later.key >= earlier.key : later.key < earlier.key;
        return earlier.row == NO_GROUP || (later.row != NO_GROUP && better) ? later : earlier;
    }

    __device__ __forceinline__ void store(u32 group, State state, u64) const {
        static_cast<u32*>(of.out)[group] = state.row;
    }

    __device__ __forceinline__ void merge(u32 group, State state, u64) const {
        if (state.row != NO_GROUP) {
            keep_better(static_cast<u32*>(of.out) + group, of, state.row);
        }
    }
};

// The same for wider values, which are compared in global memory.
struct WideExtremeFold {
    using State = u32;
    const Accumulator& of;

    static __device__ __forceinline__ State nothing() { return NO_GROUP; }

    __device__ __forceinline__ State read(u32 i) const { return i; }

    static __device__ __forceinline__ State from_below(State state, u32 lanes) {
        return __shfl_up_sync(ALL_LANES, state, lanes);
    }

    static __device__ __forceinline__ State of_lane(State state, u32 lane) { return __shfl_sync(ALL_LANES, state, lane); }

    __device__ __forceinline__ State fold(State earlier, State later) const {
        if (earlier == NO_GROUP || later == NO_GROUP) {
            return min(earlier, later);
        }
        return is_better(of.values, of.kind, of.update == ARG_MAX, later, earlier) ? later : earlier;
    }

    __device__ __forceinline__ void store(u32 group, State state, u64) const { static_cast<u32*>(of.out)[group] = state; }

    __device__ __forceinline__ void merge(u32 group, State state, u64) const {
        if (state != NO_GROUP) {
            keep_better(static_cast<u32*>(of.out) + group, of, state);
        }
    }
};

// The groups of rows, from memory.
struct GivenIds {
    const u32* ids;

    __device__ __forceinline__ u32 first(u32 begin) const { return __ldg(ids + begin); }

    // The next rows of a warp, each lane's at a distance of 32; NO_GROUP from `end` on.
    __device__ __forceinline__ void read(u32 base, u32 end, u32 (&id)[ROWS]) {
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 i = base + k * WARP + threadIdx.x % WARP;
            id[k] = i < end ? __ldg(ids + i) : NO_GROUP;
        }
    }
};

// The groups of rows as numbers of runs, by the bits of the runs' first rows.
struct RunNumbers {
    const u32* heads;
    // Runs that begin before the rows that are read next.
    u32 before;

    __device__ __forceinline__ u32 first(u32 begin) const { return before + (__ldg(heads + begin / WARP) & 1) - 1; }

    __device__ __forceinline__ void read(u32 base, u32 end, u32 (&id)[ROWS]) {
        const u32 up_to_lane = ALL_LANES >> (WARP - 1 - threadIdx.x % WARP);
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 first = base + k * WARP;
            const u32 word = first < end ? __ldg(heads + first / WARP) : 0;
            id[k] = first + threadIdx.x % WARP < end ? before + __popc(word & up_to_lane) - 1 : NO_GROUP;
            before += __popc(word);
        }
    }
};

// Aggregates rows from `begin`, a multiple of 32, to `end`, with a whole warp. Only the first and the last group of the share may have
// rows elsewhere: they are merged by atomics. All other groups belong to this warp alone and are stored.
template <typename Fold, typename Groups>
__device__ __forceinline__ void fold_share(Fold fold, Groups groups, u32 begin, u32 end, u64 capacity) {
    const u32 lane = threadIdx.x % WARP;
    const u32 first_group = groups.first(begin);
    u32 open_group = first_group;
    typename Fold::State open = Fold::nothing();
    const auto hand_over = [&](u32 group, const typename Fold::State& state) {
        if (group == first_group) {
            fold.merge(group, state, capacity);
        } else {
            fold.store(group, state, capacity);
        }
    };
    for (u32 base = begin; base < end; base += WARP_ROWS) {
        u32 id[ROWS];
        typename Fold::State state[ROWS];
        groups.read(base, end, id);
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 i = base + k * WARP + lane;
            state[k] = i < end && bit_at(fold.of.valid, i) ? fold.read(i) : Fold::nothing();
        }
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 lowest = __shfl_sync(ALL_LANES, id[k], 0);
            if (lane == 0) {
                if (lowest == open_group) {
                    state[k] = fold.fold(open, state[k]);
                } else if (open_group != NO_GROUP) {
                    hand_over(open_group, open);
                }
            }
            const u32 before = __shfl_up_sync(ALL_LANES, id[k], 1);
            const u32 heads = __ballot_sync(ALL_LANES, lane == 0 || before != id[k]);
            // The lane at which this lane's group begins among the 32.
            const u32 head = WARP - 1 - __clz(heads & (ALL_LANES >> (WARP - 1 - lane)));
#pragma unroll
            for (u32 lanes = 1; lanes < WARP; lanes *= 2) {
                const typename Fold::State below = Fold::from_below(state[k], lanes);
                if (lane >= head + lanes) {
                    state[k] = fold.fold(below, state[k]);
                }
            }
            // A group that ends before the last lane has no more rows in this share.
            if (lane < WARP - 1 && (heads >> (lane + 1) & 1) != 0 && id[k] != NO_GROUP) {
                hand_over(id[k], state[k]);
            }
            open_group = __shfl_sync(ALL_LANES, id[k], WARP - 1);
            open = Fold::of_lane(state[k], WARP - 1);
        }
    }
    if (lane == 0 && open_group != NO_GROUP) {
        fold.merge(open_group, open, capacity);
    }
}

// The same by an accumulator's update.
template <typename Groups>
__device__ __forceinline__ void accumulate_share(const Accumulator& of, Groups groups, u32 begin, u32 end, u64 capacity) {
    switch (of.update) {
        case COUNT: return fold_share(WordFold<COUNT>{of}, groups, begin, end, capacity);
        case SUM: return fold_share(WordFold<SUM>{of}, groups, begin, end, capacity);
        case SUM128: return fold_share(WideFold<2>{of}, groups, begin, end, capacity);
        case SUM256: return fold_share(WideFold<4>{of}, groups, begin, end, capacity);
        case SUM_F64: return fold_share(WordFold<SUM_F64>{of}, groups, begin, end, capacity);
        case AND: return fold_share(WordFold<AND>{of}, groups, begin, end, capacity);
        case OR: return fold_share(WordFold<OR>{of}, groups, begin, end, capacity);
        case XOR: return fold_share(WordFold<XOR>{of}, groups, begin, end, capacity);
        case FIRST_ROW: return fold_share(WordFold<FIRST_ROW>{of}, groups, begin, end, capacity);
        default: break;
    }
    if (of.kind >= I128) {
        fold_share(WideExtremeFold{of}, groups, begin, end, capacity);
    } else if (of.update == ARG_MIN) {
        fold_share(ExtremeFold<false>{of}, groups, begin, end, capacity);
    } else {
        fold_share(ExtremeFold<true>{of}, groups, begin, end, capacity);
    }
}
