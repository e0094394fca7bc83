// How a block aggregates: it initialises its accumulators in shared memory, its warps process rows until none are left,
// and the partial aggregates are flushed to the groups in global memory.
//
// Places in shared memory are hot or plain. A hot key has 32 places, one for each lane, so that a frequent key makes no
// two lanes of a warp conflict; a plain key has one. Rows without a place are accumulated in global memory directly.
// The last 32 places are padding that absorbs unused atomics ("waste").
//
// Teams: if there are more groups than fit in a block, each team of blocks reads all keys and accumulates its own share
// of them. Keys are then read once for each team, but from L2, since teams advance through the rows together.
#pragma once

#include "aggregate/block/group_directory.cuh"
#include "aggregate/block/group_flush.cuh"

// Rows that a warp claims at a time; and the same for partitioned rows, where all warps together should touch no more
// groups than L2 holds.
constexpr u32 CLAIM_ROWS = 2048;
constexpr u32 CLAIM_ROWS_PARTITIONED = 512;

constexpr u32 GROUP_THREADS = 1024;

extern __shared__ ulonglong2 group_shared[];

// Sets every accumulator of every place to its neutral element, and returns the address after them.
__device__ __forceinline__ u32* clear_places(const Accumulators& accumulators, u32 places) {
    u32* const words = reinterpret_cast<u32*>(group_shared);
    u32 all = 0;
    for (u32 a = 0; a < accumulators.count; a++) {
        const Accumulator& of = accumulators.of[a];
        const u32 end = (of.words_before + words_of(of.update)) * places;
        for (u32 i = of.words_before * places + threadIdx.x; i < end; i += blockDim.x) {
            words[i] = neutral_of(of.update);
        }
        all = end;
    }
    return words + all;
}

template <bool HALVES = true>
__device__ __forceinline__ Partials<HALVES> partials_of(const Accumulator& of, u32 places) {
    return {reinterpret_cast<u32*>(group_shared) + of.words_before * places, places};
}

// Calls `step(row, end)` for each 128 rows of a warp; `row` is the lane's first row, `end` the end of the rows. Warps
// claim rows dynamically: a block that is slowed down by skew gets fewer. `full` may be null; once it is set, the
// remaining rows are skipped.
template <typename Step>
__device__ __forceinline__ void each_claim(u32* claims, const u32* full, u32 n, Step step, u32 claim_rows = CLAIM_ROWS) {
    const u32 lane = threadIdx.x % WARP;
    const u32 parts = (n + claim_rows - 1) / claim_rows;
    u32 next = lane == 0 ? atomicAdd(claims, 1u) : 0;
    while (true) {
        const u32 part = __shfl_sync(ALL_LANES, next, 0);
        if (part >= parts) {
            return;
        }
        // Issued now, needed when these rows are done.
        if (lane == 0) {
            next = atomicAdd(claims, 1u);
            next = full != nullptr && look_now(full) != 0 ? NOWHERE : next;
        }
        const u32 end = min(n, (part + 1) * claim_rows);
        for (u32 first = part * claim_rows; first < end; first += WARP_ROWS) {
            step(first + lane, end);
        }
    }
}

// Prefetches a warp's next rows, of `keys` and of the values of all accumulators. Not for teams: another team has
// prefetched them.
template <typename Key>
__device__ __forceinline__ void fetch_next(const Accumulators& accumulators, const Key* keys, u32 row, u32 end) {
    const u32 first = row - threadIdx.x % WARP + WARP_ROWS;
    if (first < end) {
        fetch_ahead(keys, sizeof(Key) == 4 ? 5 : 6, first, end);
        for (u32 a = 0; a < accumulators.count; a++) {
            const Accumulator& of = accumulators.of[a];
            if (of.values != nullptr) {
                fetch_ahead(of.values, log_bits_of(of.kind), first, end);
            }
        }
    }
}

// Adds rows with known places to all accumulators. The last 32 places are waste.
template <typename GroupOf>
__device__ __forceinline__ void accumulate(const Accumulators& accumulators, u32 places, Rows& rows, GroupOf group_of) {
    rows.waste = places - WARP + threadIdx.x % WARP;
    rows.outside = false;
#pragma unroll
    for (u32 k = 0; k < ROWS; k++) {
        rows.outside = rows.outside || (rows.place[k] >= IN_GLOBAL && rows.somewhere(k));
    }
    for (u32 a = 0; a < accumulators.count; a++) {
        const Accumulator& of = accumulators.of[a];
        u32* const words = partials_of(of, places).words;
        const Rows these = valid_rows(of, rows);
        if (!reads_words(of.update)) {
            update_rows<InBlock>(of, words, places, accumulators.capacity, these);
            continue;
        }
        u64 word[ROWS];
        read_values<true>(of.values, of.kind, these, word);
        bool unused;
        update_words<InBlock>(of, words, places, these, word, group_of, unused);
    }
}

// Flushes a hot key's places, with a warp.
__device__ __forceinline__ void flush_hot(const Accumulators& accumulators, u32 places, u32 hot, u32 group) {
    for (u32 a = 0; a < accumulators.count; a++) {
        const Accumulator& of = accumulators.of[a];
        merge_copies(of, partials_of(of, places), accumulators.capacity, group, hot * WARP);
    }
}

// Flushes a plain key's place, with a thread.
template <bool HALVES = true>
__device__ __forceinline__ void flush_plain(const Accumulators& accumulators, u32 places, u32 place, u32 group) {
    for (u32 a = 0; a < accumulators.count; a++) {
        const Accumulator& of = accumulators.of[a];
        merge_place(of, partials_of<HALVES>(of, places), accumulators.capacity, group, place);
    }
}
