// How a warp walks the ranges of its 32 probe positions, so that its lanes are busy with pairs.
#pragma once

#include "theta/program/program_plain.cuh"

constexpr u32 NOWHERE = 0xFFFFFFFFu;
// Build positions that a warp tests together with one probe position.
constexpr u32 STRIP = WARP * PAIRS;

__device__ __forceinline__ u32 warp_min(u32 value) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = min(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}

__device__ __forceinline__ u32 warp_max(u32 value) {
    return ~warp_min(~value);
}

__device__ __forceinline__ u32 warp_sum(u32 value) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    }
    return value;
}

// The part of each lane's range in slice `blockIdx.y` of the warp: `gridDim.y` equal parts of the span of its ranges.
__device__ __forceinline__ void cut_to_slice(u32& next, u32& end) {
    if (gridDim.y == 1) {
        return;
    }
    const u32 from = warp_min(next < end ? next : NOWHERE);
    const u32 to = max(warp_max(next < end ? end : 0), from);
    const u64 slice = (to - from + gridDim.y - 1) / gridDim.y;
    const u32 begin = u32(min(from + blockIdx.y * slice, u64(to)));
    next = max(next, begin);
    end = min(end, u32(min(begin + slice, u64(to))));
}

// How a warp walks its ranges. APART: every lane walks its own range. TOGETHER: every lane has its own row, but all are
// at the same build positions, whose values are read once for the warp. ROW_BY_ROW: one row after another, each by all
// lanes.
enum class Traversal : u32 { APART, TOGETHER, ROW_BY_ROW };

// The traversal with the fewest wasted tests, which are compared in steps of a warp.
__device__ __forceinline__ Traversal count_traversal(u32 next, u32 end) {
    const u32 length = next < end ? end - next : 0;
    const u32 by_row = warp_sum(length / STRIP + (length % STRIP != 0));
    const u32 apart = warp_max(length) / PAIRS + 1;
    const u32 from = warp_min(length != 0 ? next : NOWHERE);
    const u32 to = warp_max(length != 0 ? end : 0);
    const u32 together = (max(to, from) - from) / PAIRS + 1;
    if (by_row <= apart / 2) {
        return Traversal::ROW_BY_ROW;
    }
    if (together <= apart + apart / 4) {
        return Traversal::TOGETHER;
    }
    return by_row <= apart ? Traversal::ROW_BY_ROW : Traversal::APART;
}

// The same for matches that are written: the matches of a row are contiguous if there are many.
__device__ __forceinline__ Traversal expand_traversal(u32 next, u32 end) {
    const u32 length = next < end ? end - next : 0;
    const u32 by_row = warp_sum(length / STRIP + (length % STRIP != 0));
    const u32 apart = warp_max(length) / PAIRS + 1;
    return by_row / 2 <= apart ? Traversal::ROW_BY_ROW : Traversal::APART;
}

// The pairs of build positions from `at` on that are in `next .. stop`.
__device__ __forceinline__ u32 pairs_within(u32 at, u32 next, u32 stop) {
    const u32 left = at < stop ? stop - at : 0;
    const u32 before = next > at ? min(next - at, PAIRS) : 0;
    return ALL_PAIRS >> (PAIRS - min(left, PAIRS)) & ALL_PAIRS << before;
}

// Walks each lane's range `next .. end` of build positions with its probe position, of which `probe` is the first of
// the warp, and passes the matches to `take`, in ascending order for each row: `take.own(base, passing)` those of the
// lane's own row at `base + p`; `take.row(lane, base, passing)` those of the row of `lane` at `base + 32 p`. They return
// true if that row needs no more. Returns whether the host has to decide some pair. A lane without a row has an empty
// range.
template <typename Take>
__device__ __forceinline__ bool walk(const Program& program, const Tape& tape, const Registers& registers, Traversal traversal, u32 probe,
                                     u32 next, u32 end, Take& take) {
    const bool by_row = traversal == Traversal::ROW_BY_ROW;
    const bool together = traversal == Traversal::TOGETHER;
    // Rows that all lanes still have to walk; the first is the current one.
    u32 rows = by_row ? __ballot_sync(ALL_LANES, next < end) : 0;
    const u32 start = warp_min(next < end ? next : NOWHERE);
    u32 at = together ? start / PAIRS * PAIRS : by_row ? 0 : next;
    u32 stop = by_row ? 0 : end;
    RangePairs pairs;
    pairs.probe = min(probe + threadIdx.x % WARP, program.probe_len - 1);
    pairs.step = by_row ? WARP : 1;
    pairs.last = program.build_len - 1;
    pairs.aligned = false;
    bool faulted = false;
    if (by_row && rows != 0) {
        const u32 lane = __ffs(rows) - 1;
        at = __shfl_sync(ALL_LANES, next, lane);
        stop = __shfl_sync(ALL_LANES, end, lane);
        pairs.probe = probe + lane;
    }
    while (__any_sync(ALL_LANES, at < stop)) {
        pairs.base = by_row ? at + threadIdx.x % WARP : at;
        pairs.aligned = together && at + (PAIRS - 1) <= pairs.last;
        const Flags is = run(program, tape, registers, pairs);
        u32 active;
        if (by_row) {
            const u32 left = stop > pairs.base ? stop - pairs.base : 0;
            active = ALL_PAIRS >> (PAIRS - min((left + WARP - 1) / WARP, PAIRS));
        } else {
            active = pairs_within(at, next, stop);
        }
        const u32 passing = is.truth & active;
        faulted |= (is.fault & active) != 0;
        if (by_row) {
            at = take.row(__ffs(rows) - 1, pairs.base, passing) ? stop : at + STRIP;
            if (at >= stop && (rows & (rows - 1)) != 0) {
                rows &= rows - 1;
                const u32 lane = __ffs(rows) - 1;
                at = __shfl_sync(ALL_LANES, next, lane);
                stop = __shfl_sync(ALL_LANES, end, lane);
                pairs.probe = probe + lane;
            }
        } else {
            stop = take.own(at, passing) ? 0 : stop;
            at += PAIRS;
        }
    }
    return faulted;
}

// Walks the ranges with traversal TOGETHER by a plain program, up to the end of the build side or to a NaN. Returns
// where it stopped, which is the same for all lanes; `next` and `end` are the remaining range.
template <typename Take>
__device__ __forceinline__ u32 walk_plain(const Program& program, const PlainTape& plain, const Registers& registers, u32 probe,
                                          u32& next, u32& end, Take& take) {
    const u32 row = min(probe + threadIdx.x % WARP, program.probe_len - 1);
    u32 at = warp_min(next < end ? next : NOWHERE) / PAIRS * PAIRS;
    while (at + (PAIRS - 1) < program.build_len && __any_sync(ALL_LANES, at < end)) {
        u32 passing;
        const bool ran = run_plain(plain, registers, row, at, passing);
        if (!__all_sync(ALL_LANES, ran)) {
            break;
        }
        end = take.own(at, passing & pairs_within(at, next, end)) ? 0 : end;
        at += PAIRS;
    }
    next = max(next, at);
    return at;
}

// As walk; walk_plain walks as much as a plain program can run, and walk the rest.
template <typename Take>
__device__ __forceinline__ bool walk_mostly_plain(const Program& program, const Tape& tape, const PlainTape& plain,
                                                  const Registers& registers, Traversal traversal, u32 probe, u32 next, u32 end,
                                                  Take& take) {
    const bool apart = plain.count != 0 && traversal == Traversal::TOGETHER;
    bool faulted = false;
    do {
        u32 until = end;
        if (apart) {
            const u32 at = walk_plain(program, plain, registers, probe, next, end, take);
            until = min(end, at + PAIRS);
        }
        faulted |= walk(program, tape, registers, traversal, probe, next, until, take);
        next = max(next, until);
    } while (__any_sync(ALL_LANES, next < end));
    return faulted;
}
