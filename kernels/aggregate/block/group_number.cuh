// Numbers for what is new in a directory: a warp takes those of all its rows by one atomic.
#pragma once

#include "aggregate/block/group_hash.cuh"

// Words of `state`, all 0 before the first launch: how many groups there are; whether there were more than `limit`, when
// all results are void and a larger table is needed; and, from CLAIMS on, how far the rows are dealt out, for each team.
constexpr u32 GROUPS = 0;
constexpr u32 FULL = 32;
constexpr u32 CLAIMS = 64;
constexpr u32 MAX_TEAMS = 32;

struct Directory {
    // All bits set before the first launch. u32 keys: `slots` of 8 bytes; u64 keys and tuples: `slots + 1` of 16.
    void* entries;
    // By group: its key; for tuples the row of one of its members.
    void* keys;
    u32* state;
    // Twice `limit` or more.
    u32 slots;
    u32 limit;
};

// Numbers of groups that are none.
constexpr u32 UNNUMBERED = 0xFFFFFFFFu;
constexpr u32 PENDING = 0xFFFFFFFEu;
constexpr u32 OVER = 0xFFFFFFFDu;

__device__ __forceinline__ bool is_full(const Directory& directory) {
    return look_now(directory.state + FULL) != 0;
}

// How often a search for an empty slot asks whether it is in vain.
constexpr u32 PROBES = 16;

// Where a key was found, and its number: PENDING when another thread has yet to give it, UNNUMBERED when this one has.
struct Found {
    u32 slot, number;
};

// The groups of the rows that are wanted, N a lane, by a whole warp; NO_GROUP for the others, and when there are too many.
// `claim(k)` finds the row's key or makes it a slot, `publish(k, slot, number)` says its number, `wait(slot)` waits for that.
// Bound: what claims take, and one atomic for all keys that are new.
template <u32 N, typename Claim, typename Publish, typename Wait>
__device__ __forceinline__ void number_rows(const Directory& directory, const bool (&wanted)[N], u32 (&group)[N], Claim claim,
                                            Publish publish, Wait wait) {
    const u32 lane = threadIdx.x % WARP;
    u32 slot[N];
#pragma unroll
    for (u32 k = 0; k < N; k++) {
        const Found found = wanted[k] ? claim(k) : Found{0, OVER};
        slot[k] = found.slot;
        group[k] = found.number;
    }
    u32 before[N];
    u32 all = 0;
#pragma unroll
    for (u32 k = 0; k < N; k++) {
        const u32 unnumbered = __ballot_sync(ALL_LANES, group[k] == UNNUMBERED);
        before[k] = all + __popc(unnumbered & ((1u << lane) - 1));
        all += __popc(unnumbered);
    }
    if (all != 0) {
        u32 first = 0;
        if (lane == 0) {
            first = atomicAdd(directory.state + GROUPS, all);
        }
        first = __shfl_sync(ALL_LANES, first, 0);
#pragma unroll
        for (u32 k = 0; k < N; k++) {
            if (group[k] == UNNUMBERED) {
                group[k] = first + before[k] < directory.limit ? first + before[k] : OVER;
                publish(k, slot[k], group[k]);
            }
        }
        if (first + all > directory.limit && lane == 0) {
            __stcg(directory.state + FULL, 1u);
        }
    }
#pragma unroll
    for (u32 k = 0; k < N; k++) {
        if (group[k] == PENDING) {
            group[k] = wait(slot[k]);
        }
        group[k] = group[k] == OVER ? NO_GROUP : group[k];
    }
}
