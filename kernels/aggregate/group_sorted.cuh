// How a warp aggregates its share of rows that are in the order of their groups: 128 rows at a time, four neighbours a
// lane, whose last groups are folded by a segmented scan. The last lane carries over to the next 128. A State is the
// partial aggregate of some rows of a group.
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

    // The words of neighbours from a multiple of four on, if they are read as they are. False: read one by one.
    __device__ __forceinline__ bool read_all(u32 first, State (&state)[ROWS]) const {
        if (UPDATE == COUNT || UPDATE == FIRST_ROW || (of.kind != U64 && of.kind != I64 && of.kind != F64)) {
            return false;
        }
        if (UPDATE == SUM_F64 && of.kind != F64) {
            return false;
        }
        const ulonglong2* const pairs = reinterpret_cast<const ulonglong2*>(static_cast<const u64*>(of.values) + first);
#pragma unroll
        for (u32 k = 0; k < ROWS; k += 2) {
            const ulonglong2 pair = __ldcs(pairs + k / 2);
            state[k] = pair.x;
            state[k + 1] = pair.y;
        }
        return true;
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

    __device__ __forceinline__ bool read_all(u32, State (&)[ROWS]) const { return false; }

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

    __device__ __forceinline__ bool read_all(u32, State (&)[ROWS]) const { return false; }

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

    __device__ __forceinline__ bool read_all(u32, State (&)[ROWS]) const { return false; }

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

    // Four neighbours for each lane, from `base`, a multiple of 128, on; NO_GROUP from `end` on.
    __device__ __forceinline__ void read(u32 base, u32 end, u32 (&id)[ROWS]) {
        const u32 first = base + threadIdx.x % WARP * ROWS;
        if (first + ROWS <= end) {
            const uint4 four = __ldcs(reinterpret_cast<const uint4*>(ids + first));
            id[0] = four.x;
            id[1] = four.y;
            id[2] = four.z;
            id[3] = four.w;
            return;
        }
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            id[k] = first + k < end ? __ldg(ids + first + k) : NO_GROUP;
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
        const u32 lane = threadIdx.x % WARP;
        const uint4 words = __ldg(reinterpret_cast<const uint4*>(heads + base / WARP));
        const u32 of_words[4] = {words.x, words.y, words.z, words.w};
        u32 mine = 0, lower = before;
#pragma unroll
        for (u32 w = 0; w < 4; w++) {
            mine = lane / (WARP / ROWS) == w ? of_words[w] : mine;
            lower += w < lane / (WARP / ROWS) ? __popc(of_words[w]) : 0;
            before += __popc(of_words[w]);
        }
        const u32 shift = lane % (WARP / ROWS) * ROWS;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 up_to = ALL_LANES >> (WARP - 1 - (shift + k));
            id[k] = base + lane * ROWS + k < end ? lower + __popc(mine & up_to) - 1 : NO_GROUP;
        }
    }
};

static_assert(ROWS == 4, "a lane reads four ids, and four words of bits are of 128 rows");

// Aggregates rows from `begin`, a multiple of 128, to `end`, with a whole warp. Only the first and the last group of the share may have
// rows elsewhere: they are merged by atomics. All other groups belong to this warp alone and are stored.
template <typename Fold, typename Groups>
__device__ __forceinline__ void fold_share(Fold fold, Groups groups, u32 begin, u32 end, u64 capacity) {
    typedef typename Fold::State State;
    const u32 lane = threadIdx.x % WARP;
    const u32 first_group = groups.first(begin);
    u32 open_group = first_group;
    State open = Fold::nothing();
    const auto hand_over = [&](u32 group, const State& state) {
        if (group == first_group) {
            fold.merge(group, state, capacity);
        } else if (group != NO_GROUP) {
            fold.store(group, state, capacity);
        }
    };
#pragma unroll 1
    for (u32 base = begin; base < end; base += WARP_ROWS) {
        const u32 first = base + lane * ROWS;
        u32 id[ROWS];
        State state[ROWS];
        groups.read(base, end, id);
        if (fold.of.valid != nullptr || first + ROWS > end || !fold.read_all(first, state)) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                state[k] = first + k < end && bit_at(fold.of.valid, first + k) ? fold.read(first + k) : Fold::nothing();
            }
        }
        // The first lane continues the open group.
        u32 before = __shfl_up_sync(ALL_LANES, id[ROWS - 1], 1);
        if (lane == 0) {
            if (id[0] == open_group) {
                state[0] = fold.fold(open, state[0]);
            } else {
                hand_over(open_group, open);
            }
            before = NO_GROUP;
        }
        const bool continues = id[0] == before && lane > 0;
        // The lane's first group, if another one follows in the lane; and its last one.
        State part = state[0], last = state[0];
        bool is_one = true;
#pragma unroll
        for (u32 k = 1; k < ROWS; k++) {
            if (id[k] == id[k - 1]) {
                last = fold.fold(last, state[k]);
            } else {
                if (is_one) {
                    part = last;
                } else {
                    hand_over(id[k - 1], last);
                }
                is_one = false;
                last = state[k];
            }
        }
        // A lane's last group has rows in the lanes below back to the one at which it begins.
        const u32 heads = __ballot_sync(ALL_LANES, !continues || !is_one);
        const u32 head = WARP - 1 - __clz(heads & (ALL_LANES >> (WARP - 1 - lane)));
#pragma unroll
        for (u32 lanes = 1; lanes < WARP; lanes *= 2) {
            const State below = Fold::from_below(last, lanes);
            if (lane >= head + lanes) {
                last = fold.fold(below, last);
            }
        }
        const State below = Fold::from_below(last, 1);
        if (!is_one) {
            hand_over(id[0], continues ? fold.fold(below, part) : part);
        }
        // A group that ends with a lane but the last one has no more rows in this share.
        const u32 ends = __ballot_sync(ALL_LANES, !continues) >> 1;
        if ((ends >> lane & 1) != 0) {
            hand_over(id[ROWS - 1], last);
        }
        open_group = __shfl_sync(ALL_LANES, id[ROWS - 1], WARP - 1);
        open = Fold::of_lane(last, WARP - 1);
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
