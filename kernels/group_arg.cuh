// The rows of extremes: a place holds the best row so far, and values are compared where they lie.
#pragma once

#include "group_codes.cuh"

// Whether row `row` of a column takes the place of row `best` as its extreme.
__device__ __noinline__ bool is_better(const void* values, u32 kind, bool greatest, u32 row, u32 best) {
    i32 order;
    if (kind >= I128) {
        order = compare_wide(static_cast<const u64*>(values), kind == I128 ? 2 : 4, row, best);
    } else {
        u64 words[2];
        const u32 rows[2] = {row, best};
        for (u32 i = 0; i < 2; i++) {
            switch (kind) {
                case BIT: words[i] = bit_at(static_cast<const u32*>(values), rows[i]); break;
                case U8: words[i] = static_cast<const u8*>(values)[rows[i]]; break;
                case I8: words[i] = (u64)(i64)static_cast<const i8*>(values)[rows[i]]; break;
                case U16: words[i] = static_cast<const u16*>(values)[rows[i]]; break;
                case I16: words[i] = (u64)(i64)static_cast<const i16*>(values)[rows[i]]; break;
                case I32: words[i] = (u64)(i64)static_cast<const i32*>(values)[rows[i]]; break;
                case U32:
                case F32: words[i] = static_cast<const u32*>(values)[rows[i]]; break;
                default: words[i] = static_cast<const u64*>(values)[rows[i]]; break;
            }
            words[i] = order_key(kind, words[i]);
        }
        order = words[0] < words[1] ? -1 : words[0] > words[1];
    }
    return greatest ? order > 0 || (order == 0 && row > best) : order < 0 || (order == 0 && row < best);
}

// Makes `row` the extreme at `at` unless a better one is there. Bound: two values read at random, and rarely an atomic.
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
