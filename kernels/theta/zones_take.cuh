// The consumers of a walk's matches: a count, or the output of build rows.
#pragma once

#include "theta/zones_walk.cuh"

// Up to this number of matches a lane, each lane writes its own.
constexpr u32 SHORT = 8;

// Counts a lane's matches; with `exists_only` the first one is enough.
struct Count {
    bool exists_only;
    u32 count;

    __device__ __forceinline__ bool span(bool mine, u32 from, u32 to) {
        count += mine ? to - from : 0;
        return exists_only && mine;
    }

    __device__ __forceinline__ bool bits(bool mine, u32, u64 bits) {
        count += __popcll(bits);
        return exists_only && mine;
    }
};

// Writes a lane's matches from `out[at]` on, after the first `skip` and at most `left`.
struct Write {
    const u32* build_rows;
    u32* out;
    u32 skip, at, left;

    __device__ __forceinline__ bool span(bool mine, u32 from, u32 to) {
        u32 length = mine ? to - from : 0;
        const u32 skipped = min(skip, length);
        skip -= skipped;
        from += skipped;
        length = min(length - skipped, left);
        if (__any_sync(ALL_LANES, length > SHORT)) {
            for (u32 rows = __ballot_sync(ALL_LANES, length > 0); rows != 0; rows &= rows - 1) {
                const u32 row = __ffs(rows) - 1;
                const u32* const source = build_rows + __shfl_sync(ALL_LANES, from, row);
                u32* const target = out + __shfl_sync(ALL_LANES, at, row);
                const u32 count = __shfl_sync(ALL_LANES, length, row);
#pragma unroll 4
                for (u32 i = threadIdx.x % WARP; i < count; i += WARP) {
                    target[i] = __ldg(source + i);
                }
            }
        } else {
            for (u32 i = 0; i < length; i++) {
                out[at + i] = __ldg(build_rows + from + i);
            }
        }
        return advance(mine, length);
    }

    __device__ __forceinline__ bool bits(bool mine, u32 first, u64 bits) {
        for (; skip > 0 && bits != 0; skip--) {
            bits &= bits - 1;
        }
        const u32 length = min(u32(__popcll(bits)), left);
        if (__any_sync(ALL_LANES, length > SHORT)) {
            write_together(first, bits, length);
        } else {
            for (u32 i = 0; i < length; i++) {
                out[at + i] = __ldg(build_rows + first + (__ffsll(bits) - 1));
                bits &= bits - 1;
            }
        }
        return advance(mine, length);
    }

    // Writes the matches of one row after another, each with all lanes.
    __device__ __forceinline__ void write_together(u32 first, u64 bits, u32 length) const {
        const u32 lane = threadIdx.x % WARP;
        const u32 before = (1u << lane) - 1;
        for (u32 rows = __ballot_sync(ALL_LANES, length > 0); rows != 0; rows &= rows - 1) {
            const u32 row = __ffs(rows) - 1;
            const u32 low = __shfl_sync(ALL_LANES, u32(bits), row);
            const u32 high = __shfl_sync(ALL_LANES, u32(bits >> 32), row);
            const u32 count = __shfl_sync(ALL_LANES, length, row);
            u32* const target = out + __shfl_sync(ALL_LANES, at, row);
            const u32 rank = __popc(low & before);
            const u32 high_rank = __popc(low) + __popc(high & before);
            if ((low >> lane & 1) != 0 && rank < count) {
                target[rank] = __ldg(build_rows + first + lane);
            }
            if ((high >> lane & 1) != 0 && high_rank < count) {
                target[high_rank] = __ldg(build_rows + first + WARP + lane);
            }
        }
    }

    __device__ __forceinline__ bool advance(bool mine, u32 length) {
        at += length;
        left -= length;
        return mine && left == 0;
    }
};
