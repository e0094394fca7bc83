// Numbers for new keys of a directory: a warp numbers those of all its rows by one atomic.
#pragma once

#include "aggregate/block/group_hash.cuh"

// Words of `state`, all 0 before the first launch: the number of groups; whether there were more than `limit`, in which
// case all results are invalid and a larger table is needed; and, from CLAIMS on, the progress of claimed rows for each
// team.
constexpr u32 GROUPS = 0;
constexpr u32 FULL = 32;
constexpr u32 CLAIMS = 64;
constexpr u32 MAX_TEAMS = 32;

// The directory as kernels take it: pointers into device memory, and its limits.
struct Directory {
    // All bits set before the first launch. u32 keys: `slots` entries of 8 bytes; u64 keys and tuples: `slots + 1` of
    // 16.
    void* entries;
    // By group: its key; for tuples the row of one of its members.
    void* keys;
    u32* state;
    // Twice `limit` or more.
    u32 slots;
    u32 limit;
    // Of the hashes.
    u32 seed;
};

// Numbers that are no groups.
constexpr u32 UNNUMBERED = 0xFFFFFFFFu;
constexpr u32 PENDING = 0xFFFFFFFEu;
constexpr u32 OVER = 0xFFFFFFFDu;

__device__ __forceinline__ bool is_full(const Directory& directory) {
    return look_now(directory.state + FULL) != 0;
}

// The interval, in probes, at which a search for an empty slot tests whether the directory is full.
constexpr u32 PROBES = 16;

// The slot of a key and its number: PENDING if another thread has not published it yet, UNNUMBERED if this thread
// inserted the key.
struct Found {
    u32 slot, number;
};

// The groups of the wanted rows, N for each lane, with a whole warp; NO_GROUP for the others, and if there are too many
// groups. `claim(k)` finds the row's key or inserts it, `publish(k, slot, number)` publishes its number, `wait(slot)`
// waits for a number.
// Bound: the claims, and one atomic for all new keys.
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
