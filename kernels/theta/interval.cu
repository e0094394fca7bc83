// Overlaps of intervals by two searches: where a probe interval is in the order of the build side's low ends and in that
// of their high ends, and how many probe intervals are behind each build row in both.
//
// In a group g of the build side, a probe row behind p rows of an order has the place p + g there, so that the places of
// different groups differ. `segments` (null: one group) are where the groups begin, and the number of rows last.
#include "shared/search.cuh"

// The place of a row that overlaps nothing.
constexpr u32 NOWHERE = 0xFFFFFFFFu;

// What is found of rows.
constexpr u32 REVERSED = 1;
constexpr u32 POINT = 2;

// Sets in `found` whether some row has a low end behind its high end, or is a point. Rows with a NULL are neither.
// Bound: 16 bytes a row. Launch: 256 threads, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
interval_check(const u64* __restrict__ low, const u32* __restrict__ low_valid, const u64* __restrict__ high,
               const u32* __restrict__ high_valid, u32* __restrict__ found, u32 n) {
    u32 mine = 0;
    each_row(
        n,
        [&](u32 i) {
            const bool valid = bit_at(low_valid, i) && bit_at(high_valid, i);
            const u64 from = low[i];
            const u64 to = high[i];
            return !valid || from < to ? 0u : from == to ? POINT : REVERSED;
        },
        [&](u32, u32 of_row) { mine |= of_row; });
    const u32 reversed = __any_sync(ALL_LANES, (mine & REVERSED) != 0) ? REVERSED : 0;
    const u32 point = __any_sync(ALL_LANES, (mine & POINT) != 0) ? POINT : 0;
    if (threadIdx.x % WARP == 0 && (reversed | point) != 0) {
        atomicOr(found, reversed | point);
    }
}

// The place of each probe row in one order: behind the keys of its group that are below its word (`through`: or equal to
// it). `groups` (null: one group), `words`, and the validities are by row; a row with a NULL in one of them, or without a
// group, has no place.
// Bound: 12 bytes a row, and a binary search with random reads. Launch: 256 threads, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
interval_place(const u32* __restrict__ segments, const u64* __restrict__ keys, u32 build_n,
               const u32* __restrict__ groups, const u64* __restrict__ words, const u32* __restrict__ valid,
               const u32* __restrict__ other_valid, u32 through, u32* __restrict__ places, u32 m) {
    const u32 first = warp_first(blockIdx.x) + threadIdx.x % WARP;
    u32 at[ITEMS], end[ITEMS], group[ITEMS];
    u64 word[ITEMS];
    u32 width = 0;
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 i = min(first + k * WARP, m - 1);
        const u32 mine = groups == nullptr ? 0 : groups[i];
        const bool valid_row = bit_at(valid, i) && bit_at(other_valid, i);
        group[k] = valid_row ? mine : NO_GROUP;
        word[k] = words[i];
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const bool some = group[k] != NO_GROUP;
        at[k] = some && segments != nullptr ? segments[group[k]] : 0;
        end[k] = !some ? 0 : segments != nullptr ? segments[group[k] + 1] : build_n;
        width = max(width, end[k] - at[k]);
    }
    // The loads of a thread's four searches are in flight together.
    for (u32 half = width == 0 ? 0 : 1u << (31 - __clz(width)); half > 0; half /= 2) {
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            if (at[k] + half <= end[k]) {
                const u64 key = keys[at[k] + half - 1];
                if (key < word[k] || (through != 0 && key == word[k])) {
                    at[k] += half;
                }
            }
        }
    }
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 i = first + k * WARP;
        if (i < m) {
            places[i] = group[k] == NO_GROUP ? NOWHERE : at[k] + group[k];
        }
    }
}

// The number of overlaps of each probe row, at least `least`.
// Bound: 12 bytes a row. Launch: 256 threads, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
interval_count(const u32* __restrict__ by_low, const u32* __restrict__ by_high, u32 least, u32* __restrict__ counts,
               u32 m) {
    each_row(
        m, [&](u32 i) { return by_low[i] - by_high[i]; },
        [&](u32 i, u32 count) { counts[i] = max(count, least); });
}

// Adds 1 to `cover` at the place of each row whose bit is set in `counted`.
// Bound: 4 bytes a row and an atomic. Launch: 256 threads, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
interval_add(const u32* __restrict__ places, const u32* __restrict__ counted, u32* __restrict__ cover, u32 m) {
    each_row(
        m, [&](u32 i) { return bit_at(counted, i) ? places[i] : NOWHERE; },
        [&](u32, u32 place) {
            if (place != NOWHERE) {
                atomicAdd(&cover[place], 1u);
            }
        });
}

// The number of probe rows that are placed behind each build row, by row: added to `out`, or with `less` subtracted from
// it. `sums` are the inclusive sums of a cover.
// Bound: 8 bytes and two random accesses a position, and a search for its group. Launch: 256 threads, a block for each
// 1024 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
interval_behind(const u32* __restrict__ segments, u32 groups, const u32* __restrict__ rows, const u32* __restrict__ sums,
                u32 less, u32* __restrict__ out, u32 n) {
    each_row(
        n,
        [&](u32 p) {
            // The last group that begins at p or before; empty ones end where they begin.
            const u32 group = segments == nullptr
                                  ? 0
                                  : partition_point(0, groups, [&](u32 g) { return segments[g + 1] <= p; });
            const u32 end = segments == nullptr ? n : segments[group + 1];
            return make_uint2(rows[p], sums[end + group] - sums[p + group]);
        },
        [&](u32, uint2 behind) { out[behind.x] += less != 0 ? 0u - behind.y : behind.y; });
}

// At least `least` in each row of `counts`.
// Bound: 8 bytes a row. Launch: 256 threads, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK) interval_at_least(u32 least, u32* __restrict__ counts, u32 n) {
    each_row(
        n, [&](u32 i) { return max(counts[i], least); }, [&](u32 i, u32 count) { counts[i] = count; });
}
