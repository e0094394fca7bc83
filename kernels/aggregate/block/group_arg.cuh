// The rows of extremes: a place holds the best row so far, and values are compared in global memory.
#pragma once

#include "aggregate/block/group_codes.cuh"

// Whether row `row` of a column replaces row `best` as its extreme.
__device__ __noinline__ bool is_better(const void* values, u32 kind, bool greatest, u32 row, u32 best) {
    i32 order;
    if (kind >= I128) {
        order = compare_wide(static_cast<const u64*>(values), kind == I128 ? 2 : 4, row, best);
    } else {
        u64 words[2];
        const u32 rows[2] = {row, best};
        for (u32 i = 0; i < 2; i++) {
            words[i] = order_key(kind, value_at(values, kind, rows[i]));
        }
        order = words[0] < words[1] ? -1 : words[0] > words[1];
    }
    return greatest ? order > 0 || (order == 0 && row > best) : order < 0 || (order == 0 && row < best);
}

// Makes `row` the extreme at `at` unless there is a better one. Bound: two values read at random, and rarely an atomic.
__device__ __forceinline__ void keep_better(u32* at, const Accumulator& of, u32 row) {
    const bool greatest = of.update == ARG_MAX;
    u32 best = atomicOr(at, 0);
    while (best == NOWHERE || is_better(of.values, of.kind, greatest, row, best)) {
        const u32 found = atomicCAS(at, best, row);
        if (found == best) {
            return;
        }
        best = found;
    }
}
