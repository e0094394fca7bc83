// Range join by binary search: where the matches of each probe row begin and end in the sorted build side; and the
// build rows that ranges cover.
//
// Ranges are indexed by probe position, and probe rows come in key order, so neighbours have neighbouring ranges.
#include "theta/range_search.cuh"

// The initial range of a row, before any bound: the segment of its group, or the whole build side if `segments` or
// `groups` is null. `groups` is indexed by probe row. A row in no group, or in an empty one, gets 0, 0.
// Bound: 12 bytes a position, and two random reads when grouped. Launch: 256 threads, a block for each 1024 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
range_begin(const u32* __restrict__ segments, const u32* __restrict__ groups, const u32* __restrict__ probe_rows,
            u32 build_n, u32* __restrict__ lo, u32* __restrict__ hi, u32 m) {
    each_row(
        m,
        [&](u32 i) {
            if (segments == nullptr || groups == nullptr) {
                return make_uint2(0, build_n);
            }
            const u32 group = groups[probe_rows[i]];
            return group == NO_GROUP ? make_uint2(0, 0) : make_uint2(segments[group], segments[group + 1]);
        },
        [&](u32 i, uint2 range) {
            lo[i] = range.x < range.y ? range.x : 0;
            hi[i] = range.x < range.y ? range.y : 0;
        });
}

// One bound `build key OP probe key`: narrows each range to the part that satisfies it. `words` and `valid` are indexed
// by probe row, or by position if `probe_rows` is null. A row that is not valid, or whose range becomes empty, gets
// 0, 0. With `one_group` not 0 the keys of the whole build side ascend, otherwise only those of a segment. A block
// whose ranges are all the same then searches cooperatively; otherwise each thread searches by itself. Any order of
// words is correct; words that ascend with the position are fast.
// Bound: 16 bytes a position, its word (a random read unless by position), and each build key once. Launch: 256
// threads, a block for each 1024 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
range_narrow(const u64* __restrict__ build_keys, const u32* __restrict__ probe_rows, const u64* __restrict__ words,
             const u32* __restrict__ valid, u32 op, u32 one_group, u32* __restrict__ lo, u32* __restrict__ hi, u32 m) {
    __shared__ Searches searches[BLOCK / WARP];
    __shared__ Bracket bracket;
    const u32 warp = threadIdx.x / WARP;
    const u32 lane = threadIdx.x % WARP;
    const u32 first = warp_first(blockIdx.x) + lane;

    u32 from[ITEMS], to[ITEMS];
    u64 word[ITEMS];
    Searches mine = Searches::none();
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 i = min(first + k * WARP, m - 1);
        const u32 row = probe_rows == nullptr ? i : probe_rows[i];
        const u32 begin = lo[i];
        const u32 end = hi[i];
        word[k] = words[row];
        const bool live = bit_at(valid, row);
        from[k] = live ? begin : 0;
        to[k] = live ? end : 0;
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        mine.add(word[k], from[k], to[k]);
    }
    mine.join(WARP);
    if (lane == 0) {
        searches[warp] = mine;
    }
    __syncthreads();

    if (warp < 2) {
        Searches all = searches[lane % (BLOCK / WARP)];
        all.join(BLOCK / WARP);
        const bool alike = all.least_from == all.greatest_from && all.least_to == all.greatest_to;
        const bool any = all.least_from < all.greatest_to;
        const bool together = any && (one_group != 0 || alike);
        const u32 begin = together ? all.least_from : 0;
        const u32 end = together ? all.greatest_to : 0;
        if (warp == 0) {
            const u32 at = warp_partition_point(begin, end, [&](u32 i) { return build_keys[i] < all.least; });
            if (lane == 0) {
                bracket.together = together;
                bracket.first = at;
            }
        } else {
            const u32 at = warp_partition_point(begin, end, [&](u32 i) { return build_keys[i] <= all.greatest; });
            if (lane == 0) {
                bracket.end = at;
            }
        }
    }
    __syncthreads();
    const u32 apart = bracket.apart();
    const u32 pivots = bracket.pivot_count();
    for (u32 i = threadIdx.x; i < pivots; i += BLOCK) {
        bracket.pivots[i] = build_keys[bracket.first + i * apart];
    }
    __syncthreads();

    u32 answers[ITEMS];
    if (op == GT || op == GT_EQ || op == EQ) {
        search(bracket, build_keys, word, from, to, op == GT, answers);
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            from[k] = answers[k];
        }
    }
    if (op == LT || op == LT_EQ || op == EQ) {
        search(bracket, build_keys, word, from, to, op != LT, answers);
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            to[k] = answers[k];
        }
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 i = first + k * WARP;
        if (i < m) {
            lo[i] = from[k] < to[k] ? from[k] : 0;
            hi[i] = from[k] < to[k] ? to[k] : 0;
        }
    }
}

// The match count of each range: its length, or with `exists_only` 1 or 0.
// Bound: 12 bytes a position. Launch: 256 threads, a block for each 1024 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
range_counts(const u32* __restrict__ lo, const u32* __restrict__ hi, u32* __restrict__ counts, u32 exists_only, u32 m) {
    each_row(
        m, [&](u32 i) { return hi[i] - lo[i]; },
        [&](u32 i, u32 count) { counts[i] = exists_only != 0 ? min(count, 1u) : count; });
}

// `out[rows[i]] = words[i]`: from position order to row order. Rows that are not in `rows` keep their value in `out`
// (zero).
// Bound: 8 bytes and a random write a position. Launch: 256 threads, a block for each 1024 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
range_cover_scatter(const u32* __restrict__ inclusive_sums, const u32* __restrict__ build_rows, u32* __restrict__ out,
                    u32 n) {
    each_row(
        n, [&](u32 i) { return make_uint2(build_rows[i], inclusive_sums[i]); },
        [&](u32, uint2 sum) { out[sum.x] = sum.y; });
}

// A value at which no range begins or ends, for empty ranges.
constexpr u32 NOWHERE = 0xFFFFFFFFu;

// A run of equal values in the sequence of a warp's positions, added to `steps` by one atomic. Under a single
// inequality all ranges begin at 0, and an atomic for each would serialise the whole device at one address.
struct Run {
    u32 value = NOWHERE;
    u32 length = 0;

    // Adds the values of 32 neighbouring positions, one for each lane. All lanes hold the same run.
    __device__ __forceinline__ void extend(u32 mine, u32* steps, u32 sign) {
        const u32 lane = threadIdx.x % WARP;
        const u32 left = __shfl_up_sync(ALL_LANES, mine, 1);
        const bool head = mine != (lane == 0 ? value : left);
        const u32 heads = __ballot_sync(ALL_LANES, head);
        if (heads == 0) {
            length += WARP;
            return;
        }
        length += __ffs(heads) - 1;
        if (lane == 0) {
            flush(steps, sign);
        }
        const u32 last = WARP - 1 - __clz(heads);
        const u32 later = heads & (~1u << lane);
        if (head && later != 0 && mine != NOWHERE) {
            atomicAdd(&steps[mine], sign * (__ffs(later) - 1 - lane));
        }
        value = __shfl_sync(ALL_LANES, mine, last);
        length = WARP - last;
    }

    __device__ __forceinline__ void flush(u32* steps, u32 sign) const {
        if (value != NOWHERE && length != 0) {
            atomicAdd(&steps[value], sign * length);
        }
    }
};

// The difference array of coverage: +1 where a range begins and -1 where it ends, wrapping. `steps` has one more word
// than the build side and is zeroed first.
// Bound: 8 bytes a position, and an atomic for each run of equal values. Launch: 256 threads, a grid of any size (8
// blocks a multiprocessor, at most a block for each 256 positions): each warp processes its own strip.
extern "C" __global__ void __launch_bounds__(BLOCK)
range_cover_steps(const u32* __restrict__ lo, const u32* __restrict__ hi, u32* __restrict__ steps, u32 m) {
    const u32 warps = gridDim.x * (BLOCK / WARP);
    const u32 chunks = (m + WARP - 1) / WARP;
    const u32 chunks_of_warp = (chunks + warps - 1) / warps;
    const u32 warp = blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    const u32 first = min(warp * chunks_of_warp, chunks);
    const u32 end = min(first + chunks_of_warp, chunks);
    const u32 lane = threadIdx.x % WARP;
    Run begins, ends;
    for (u32 chunk = first; chunk < end; chunk += ITEMS) {
        u32 from[ITEMS], to[ITEMS];
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            const u32 i = (chunk + k) * WARP + lane;
            const bool mine = chunk + k < end && i < m;
            from[k] = mine ? lo[i] : 0;
            to[k] = mine ? hi[i] : 0;
        }
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            const bool some = from[k] < to[k];
            begins.extend(some ? from[k] : NOWHERE, steps, 1);
            ends.extend(some ? to[k] : NOWHERE, steps, ~0u);
        }
    }
    if (lane == 0) {
        begins.flush(steps, 1);
        ends.flush(steps, ~0u);
    }
}
