// The walk of a warp's probe rows down the tree of zones.
//
// A warp processes 32 neighbouring probe positions, one for each lane. At each block of build positions it tests for
// all lanes whether no key of the block, or every key, satisfies the lane's tests. In the first case the lane is done
// with the block, in the second all its positions match, and otherwise the lane descends. In a leaf the roles are
// reversed: a lane holds two build keys, and each remaining probe key is compared with all 64 at once. So the work is
// proportional to the output, not to the product of the inputs.
#pragma once

#include "shared/tile.cuh"

// Positions of a leaf, and log2 of the blocks of one level in a block of the next.
constexpr u32 LEAF = 64;
constexpr u32 FAN_OUT_BITS = 3;
constexpr u32 FAN_OUT = 1 << FAN_OUT_BITS;
constexpr u32 MAX_LEVELS = 12;
constexpr u32 MAX_TESTS = 8;
constexpr u32 NOWHERE = 0xFFFFFFFFu;

// One test `build key OP probe key`: keys by build position and by probe position, and the extremes of blocks for each
// level.
struct ZoneTest {
    const u64* build;
    const u64* probe;
    const u64* min[MAX_LEVELS];
    const u64* max[MAX_LEVELS];
    u64 op;
};

// All tests of a join, and the number of build positions and of levels (the last level has at most 8 blocks).
struct ZoneTests {
    ZoneTest tests[MAX_TESTS];
    u32 count;
    u32 levels;
    u32 n;
    u32 unused;
};

// A comparison normalised to `key < word` or `key == word`, in which keys and words, and the result, may be
// complemented.
struct Form {
    bool equal, inverted;
    u64 flip;

    __device__ __forceinline__ explicit Form(u64 op)
        : equal(op == EQ || op == NOT_EQ),
          inverted(op == LT_EQ || op == GT_EQ || op == NOT_EQ),
          flip(op == GT || op == LT_EQ ? ~0ull : 0) {}
};

// The probe keys of a warp in the form of each test, in shared memory.
using Words = u64[MAX_TESTS][WARP];

__device__ __forceinline__ u32 warp_min(u32 value) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = min(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}

__device__ __forceinline__ u32 warp_max(u32 value) {
    return ~warp_min(~value);
}

// Warps of a block. They share nothing; a block of one warp would do, but a multiprocessor holds only 32 blocks.
constexpr u32 WALKERS = 2;

// Restricts each lane's range to slice `blockIdx.y` of the warp: `gridDim.y` equal parts of the span of its ranges.
__device__ __forceinline__ void cut_to_slice(u32& next, u32& end) {
    if (gridDim.y == 1) {
        return;
    }
    const u32 from = warp_min(next < end ? next : NOWHERE) / LEAF * LEAF;
    const u32 to = max(warp_max(next < end ? end : 0), from);
    const u32 slice = ((to - from + gridDim.y - 1) / gridDim.y + LEAF - 1) / LEAF * LEAF;
    const u32 begin = from + blockIdx.y * slice;
    next = max(next, begin);
    end = min(end, begin + slice);
}

// Loads the keys of probe position `position` into shared memory, one for each test; lanes without a position pass
// `none`.
__device__ __forceinline__ void load_words(const ZoneTests& zones, u32 position, bool none, Words& words) {
    for (u32 t = 0; t < zones.count; t++) {
        const u64 word = none ? 0 : zones.tests[t].probe[position];
        words[t][threadIdx.x % WARP] = word ^ Form(zones.tests[t].op).flip;
    }
    __syncwarp();
}

// Whether keys between a block's extremes may satisfy every test, and whether all of them do.
struct Verdict {
    bool possible, certain;
};

__device__ __forceinline__ Verdict judge(const ZoneTests& zones, const Words& words, u32 level, u32 block, bool asked) {
    Verdict all = {asked, asked};
#pragma unroll 1
    for (u32 t = 0; t < zones.count; t++) {
        const ZoneTest& test = zones.tests[t];
        const Form form(test.op);
        const u64 word = words[t][threadIdx.x % WARP];
        const u64 min = __ldg(&test.min[level][block]);
        const u64 max = __ldg(&test.max[level][block]);
        const u64 low = form.flip ? ~max : min;
        const u64 high = form.flip ? ~min : max;
        const bool some = form.equal ? low <= word && word <= high : low < word;
        const bool every = form.equal ? low == word && high == word : high < word;
        all.possible &= form.inverted ? !every : some;
        all.certain &= form.inverted ? !some : every;
        if (!__any_sync(ALL_LANES, all.possible)) {
            break;
        }
    }
    all.certain &= all.possible;
    return all;
}

// For each lane in `rows` the bits of `holds(word)` for its word: a ballot over 32 of the 64 keys at a time.
template <typename Holds>
__device__ __forceinline__ u64 match_rows(const u64 (&words)[WARP], u32 rows, Holds holds) {
    const u32 lane = threadIdx.x % WARP;
    u32 low = 0, high = 0;
#pragma unroll
    for (u32 first = 0; first < WARP; first += 8) {
        // Neighbours finish together: of eight lanes mostly all or none remain.
        if ((rows >> first & 0xFF) == 0) {
            continue;
        }
#pragma unroll
        for (u32 row = first; row < first + 8; row++) {
            const u64 word = words[row];
            const u32 low_of_row = __ballot_sync(ALL_LANES, holds(word, 0));
            const u32 high_of_row = __ballot_sync(ALL_LANES, holds(word, 1));
            low = lane == row ? low_of_row : low;
            high = lane == row ? high_of_row : high;
        }
    }
    return u64(high) << 32 | low;
}

// For each lane in `rows` the positions of a leaf, among those in `wanted`, that satisfy all tests.
__device__ __forceinline__ u64 match_leaf(const ZoneTests& zones, const Words& words, u32 leaf, u32 rows, u64 wanted) {
    const u32 lane = threadIdx.x % WARP;
    const u32 position = leaf * LEAF + lane;
    u64 bits = rows >> lane & 1 ? wanted : 0;
#pragma unroll 1
    for (u32 t = 0; t < zones.count && rows != 0; t++) {
        const ZoneTest& test = zones.tests[t];
        const Form form(test.op);
        const u64 keys[2] = {position < zones.n ? test.build[position] ^ form.flip : 0,
                             position + WARP < zones.n ? test.build[position + WARP] ^ form.flip : 0};
        const u64 holding = form.equal
                                ? match_rows(words[t], rows, [&](u64 word, u32 half) { return keys[half] == word; })
                                : match_rows(words[t], rows, [&](u64 word, u32 half) { return keys[half] < word; });
        bits &= form.inverted ? ~holding : holding;
        rows = __ballot_sync(ALL_LANES, bits != 0);
    }
    return bits;
}

// Walks each lane's range `next .. end` and passes matches to `take`, in ascending order for each lane:
// `take.span(mine, from, to)` for positions that all match, `take.bits(mine, first, bits)` for positions whose bit is
// set. All lanes call it, and `mine` says which have matches; a lane that gets true ends its search.
template <typename Take>
__device__ __forceinline__ void walk(const ZoneTests& zones, const Words& words, u32 next, u32 end, Take& take) {
    const u32 to = warp_max(next < end ? end : 0);
    for (;;) {
        // The first position of any lane that still searches, at a level whose blocks are at most as long as the rest
        // of the range.
        const u32 from = warp_min(next < end ? next : NOWHERE);
        if (from == NOWHERE) {
            return;
        }
        u32 leaf = from / LEAF;
        u32 level = 0;
        while (level + 1 < zones.levels && LEAF << (level + 1) * FAN_OUT_BITS <= to - from) {
            level++;
        }
        for (;;) {
            const u32 block = leaf >> level * FAN_OUT_BITS;
            const u32 after = (block + 1) << level * FAN_OUT_BITS;
            const u32 block_end = after * LEAF;
            const u32 stop = min(block_end, end);
            const bool here = next < stop;
            if (!__any_sync(ALL_LANES, here)) {
                break;
            }
            const Verdict verdict = judge(zones, words, level, block, here);
            bool done = false;
            if (__any_sync(ALL_LANES, verdict.certain)) {
                done = take.span(verdict.certain, next, stop);
            }
            const bool down = verdict.possible && !verdict.certain;
            const u32 rows = __ballot_sync(ALL_LANES, down);
            if (rows != 0 && level == 0) {
                const u32 first = leaf * LEAF;
                const u64 wanted = down ? (~0ull << (next - first)) & (~0ull >> (LEAF - (stop - first))) : 0;
                const u64 bits = match_leaf(zones, words, leaf, rows, wanted);
                done |= take.bits(bits != 0, first, bits);
            }
            if (done) {
                next = end;
            } else if (here && (!down || level == 0)) {
                next = block_end;
            }
            if (rows != 0 && level > 0) {
                level--;
                continue;
            }
            leaf = after;
            if (leaf * LEAF >= to) {
                return;
            }
            while (level + 1 < zones.levels && (leaf >> level * FAN_OUT_BITS) % FAN_OUT == 0 &&
                   leaf * LEAF + (LEAF << (level + 1) * FAN_OUT_BITS) <= to) {
                level++;
            }
        }
    }
}
