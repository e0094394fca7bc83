// Verification: candidates are queued by their warp until there is one for each lane; then their overlaps are counted,
// and matches are emitted.
#pragma once

#include "shared/search.cuh"
#include "sets/set.cuh"

// The output of matches: counts[r] for each probe set, indexed[s] for each build set if wanted (not null), and the
// pairs (r << 32 | s) if wanted (not null), in any order. totals[0] counts the pairs; those beyond `capacity` are
// dropped, and the caller runs again with a larger buffer. totals[1] counts candidates whose elements were compared.
// A set that stands for several equal ones counts as many times: of_build[s], of_probe[r]; once if that is null.
struct Matches {
    u32* counts;
    u32* indexed;
    u64* pairs;
    u64 capacity;
    u64* totals;
    const u32* of_build;
    const u32* of_probe;

    // All lanes call; `mine` says which have a match.
    __device__ __forceinline__ void put(bool mine, u32 r, u32 s) const {
        const u32 taken = __ballot_sync(ALL_LANES, mine);
        if (taken == 0) {
            return;
        }
        if (mine) {
            atomicAdd(&counts[r], of_build == nullptr ? 1u : of_build[s]);
            if (indexed != nullptr) {
                atomicAdd(&indexed[s], of_probe == nullptr ? 1u : of_probe[r]);
            }
        }
        if (pairs == nullptr) {
            return;
        }
        const u32 lane = threadIdx.x % WARP;
        u64 first = 0;
        if (lane == 0) {
            first = atomicAdd(&totals[0], u64(__popc(taken)));
        }
        const u64 at = __shfl_sync(ALL_LANES, first, 0) + __popc(taken & ((1u << lane) - 1));
        if (mine && at < capacity) {
            pairs[at] = u64(r) << 32 | s;
        }
    }
};

// Two sets whose overlap must reach `need`. `first`, unless NONE, must be their first common element, so that a pair
// that is a candidate by each of its common elements counts once.
struct Overlap {
    const u32* r;
    const u32* s;
    u32 a, b;
    u32 need, first;

    // Pairs of up to this many elements are merged by one lane, others are searched by a warp.
    static constexpr u32 SHORT = 128;

    __device__ __forceinline__ bool is_short() const { return a + b <= SHORT; }

    // A merge by one lane, which ends early if the remaining elements cannot reach the need.
    __device__ __forceinline__ bool merged() const {
        if (need == 0 || min(a, b) < need) {
            return need == 0;
        }
        u32 i = 0, j = 0, o = 0;
        u32 x = r[0], y = s[0];
        for (;;) {
            const bool next_x = x <= y;
            const bool next_y = y <= x;
            if (next_x && next_y && o == 0 && first != NONE && x != first) {
                return false;
            }
            o += next_x && next_y;
            i += next_x;
            j += next_y;
            if (o >= need || o + min(a - i, b - j) < need) {
                return o >= need;
            }
            if (next_x) {
                x = r[i];
            }
            if (next_y) {
                y = s[j];
            }
        }
    }

    // A search by a warp: each lane searches an element of the smaller set in the rest of the larger.
    __device__ __forceinline__ bool searched() const {
        const u32* const small = a <= b ? r : s;
        const u32* const large = a <= b ? s : r;
        const u32 few = min(a, b), many = max(a, b);
        u32 o = 0, from = 0;
        for (u32 begin = 0; begin < few && o < need && o + (few - begin) >= need; begin += WARP) {
            const u32 i = begin + threadIdx.x % WARP;
            const u32 x = i < few ? small[i] : NONE;
            const u32 at = partition_point(from, many, [&](u32 k) { return large[k] < x; });
            const u32 hits = __ballot_sync(ALL_LANES, i < few && at < many && large[at] == x);
            const u32 least = __shfl_sync(ALL_LANES, x, hits == 0 ? 0 : __ffs(hits) - 1);
            if (hits != 0 && o == 0 && first != NONE && least != first) {
                return false;
            }
            o += __popc(hits);
            from = __shfl_sync(ALL_LANES, at, WARP - 1);
        }
        return o >= need;
    }

    // The Overlap of another lane.
    __device__ __forceinline__ Overlap of_lane(u32 lane) const {
        return {reinterpret_cast<const u32*>(__shfl_sync(ALL_LANES, reinterpret_cast<u64>(r), lane)),
                reinterpret_cast<const u32*>(__shfl_sync(ALL_LANES, reinterpret_cast<u64>(s), lane)),
                __shfl_sync(ALL_LANES, a, lane),
                __shfl_sync(ALL_LANES, b, lane),
                __shfl_sync(ALL_LANES, need, lane),
                __shfl_sync(ALL_LANES, first, lane)};
    }
};

// Probe set `r` and build set `s`; `first` as in Overlap.
struct Candidate {
    u32 r, s, first;
};

// In a self-join only pairs on one side of the diagonal are tested. A match may also be one with its sets exchanged:
// never, always, or if both sets have the same size, as with containment.
enum Mirror : u32 { NEVER = 0, ALWAYS = 1, OF_ONE_SIZE = 2 };

// Everything that decides whether two sets match. `grouped`: only sets of one group match, and build sets are ordered
// by group, then by size; windows are within groups.
struct Join {
    Sets probe, build;
    Measure measure;
    Matches matches;
    u32 mirror, grouped;

    // Emits the match of each lane that has one; all lanes call.
    __device__ __forceinline__ void take(bool mine, u32 r, u32 s) const {
        matches.put(mine, r, s);
        if (mirror != NEVER) {
            const bool other = mine && r != s && (mirror == ALWAYS || probe.sizes[r] == build.sizes[s]);
            matches.put(other, s, r);
        }
    }

    // Verifies the candidate of each lane that has one; all lanes call.
    __device__ __forceinline__ void verify(bool mine, const Candidate& candidate) const {
        Overlap overlap = {nullptr, nullptr, 0, 0, NONE, NONE};
        if (mine) {
            const u32 r = candidate.r, s = candidate.s;
            const u32 need = measure.need(probe.sizes[r], build.sizes[s]);
            overlap = {probe.of(r), build.of(s), probe.length(r), build.length(s), need, candidate.first};
            if (mirror != NEVER && r == s) {
                // A set and itself.
                const bool is_first = candidate.first == NONE || candidate.first == overlap.r[0];
                overlap.need = is_first && overlap.a >= need ? 0 : NONE;
            }
        }
        bool match = overlap.is_short() && overlap.merged();
        for (u32 left = __ballot_sync(ALL_LANES, !overlap.is_short()); left != 0; left &= left - 1) {
            const u32 lane = __ffs(left) - 1;
            const bool found = overlap.of_lane(lane).searched();
            match = lane == threadIdx.x % WARP ? found : match;
        }
        take(match, candidate.r, candidate.s);
    }
};

// Queued candidates of one warp: fewer than one for each lane between two calls.
struct Queue {
    static constexpr u32 SLOTS = 2 * WARP;

    Candidate* waiting;
    u32 count;
    u32 verified;

    // All lanes call; `mine` says which have a candidate.
    __device__ __forceinline__ void push(const Join& join, bool mine, const Candidate& candidate) {
        const u32 lane = threadIdx.x % WARP;
        const u32 coming = __ballot_sync(ALL_LANES, mine);
        if (mine) {
            waiting[count + __popc(coming & ((1u << lane) - 1))] = candidate;
        }
        __syncwarp();
        count += __popc(coming);
        if (count >= WARP) {
            count -= WARP;
            verified += WARP;
            join.verify(true, waiting[count + lane]);
            __syncwarp();
        }
    }

    // Verifies the remaining candidates.
    __device__ __forceinline__ void finish(const Join& join) {
        const u32 lane = threadIdx.x % WARP;
        join.verify(lane < count, waiting[lane]);
        verified += count;
        count = 0;
        if (lane == 0 && verified != 0) {
            atomicAdd(&join.matches.totals[1], u64(verified));
        }
    }
};
