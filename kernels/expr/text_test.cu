// Predicates on text and binary values, and substrings by characters. CPU counterpart:
// src/device/host/expr/string_predicate.rs.
//
// A thread tests one value at a time. Columns with offsets have all bytes. A view that does not hold its whole value
// has only its first four bytes, so `left` says whether these did not decide some row: then the host fallback runs.
#include "shared/search.cuh"
#include "expr/text_like.cuh"
#include "shared/tile.cuh"

// Operations in addition to the comparisons.
constexpr u32 AMONG = 6, LIKE = 7, PRESENT = 8;

// Up to this number, constants are compared one after the other.
constexpr u32 FEW_CONSTANTS = 16;

__device__ __forceinline__ bool holds_of(u32 op, int order) {
    switch (op) {
        case LT: return order < 0;
        case LT_EQ: return order <= 0;
        case GT: return order > 0;
        case GT_EQ: return order >= 0;
        case EQ: return order == 0;
        default: return order != 0;
    }
}

// Whether the value is one of `constants`, which ascend.
__device__ __forceinline__ Truth is_among(const Value& value, const Constants& constants) {
    if (constants.count > FEW_CONSTANTS && value.whole()) {
        const u32 at = partition_point(0, constants.count, [&](u32 k) {
            int order = 0;
            compare(constants.at(k), value, &order);
            return order < 0;
        });
        return at < constants.count ? equal(value, constants.at(at)) : NO;
    }
    Truth found = NO;
    for (u32 k = 0; k < constants.count && found == NO; k++) {
        found = equal(value, constants.at(k));
    }
    return found;
}

// Not inlined, as it is long and each thread calls it four times.
__device__ __noinline__ Truth says(u32 op, Value value, u32 skip, u32 take, Constants constants) {
    if (op == PRESENT) {
        return YES;
    }
    if (!slice(&value, skip, take)) {
        return UNKNOWN;
    }
    if (op == AMONG) {
        return is_among(value, constants);
    }
    if (op == LIKE) {
        return is_like(value, constants);
    }
    int order = 0;
    if (!compare(value, constants.at(0), &order)) {
        return UNKNOWN;
    }
    return holds_of(op, order) ? YES : NO;
}

// Bits of the rows for which `truth(value(i))` is YES, and NO for a NULL; `left` is set if one is UNKNOWN. A thread
// first locates its four values.
template <typename At, typename Says>
__device__ __forceinline__ void each_truth(u32 n, const u32* valid, u32* out, u32* left, At value, Says truth) {
    const u32 first = warp_first(blockIdx.x);
    const u32 lane = threadIdx.x % WARP;
    decltype(value(0u)) values[ITEMS];
    bool some[ITEMS];
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const u32 i = first + k * WARP + lane;
        values[k] = value(min(i, n - 1));
        some[k] = i < n && bit_at(valid, i);
    }
    u32 mine = 0;
#pragma unroll
    for (u32 k = 0; k < ITEMS; k++) {
        const Truth said = some[k] ? truth(values[k]) : NO;
        if (said == UNKNOWN) {
            *left = 1;
        }
        const u32 word = __ballot_sync(ALL_LANES, said == YES);
        mine = lane == k ? word : mine;
    }
    const u32 word = first / WARP + lane;
    if (lane < ITEMS && word < (n + WARP - 1) / WARP) {
        out[word] = mine;
    }
}

// The result of a test of a column's values, as bits. `op` is a comparison with the one constant, AMONG for one of
// `count` constants that ascend and differ, LIKE for a pattern of `count` segments, PRESENT for every value. The test
// reads `take` characters after the first `skip`, or the whole value for 0xFFFFFFFF and 0. `valid` may be null. Bound:
// 8 bytes read a row and the bytes of the value that decide, a bit written. Launch: blocks of 256, a block for each
// 1024 rows. `constants` is aligned to 16.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_test_bytes(u32 op, const u32* __restrict__ offsets, const u32* __restrict__ bytes, const u32* __restrict__ valid,
                    u32 skip, u32 take, const u32* __restrict__ constants_at, const u32* __restrict__ constants, u32 count,
                    u32* __restrict__ out, u32 n) {
    const Bytes values{offsets, bytes};
    const Constants given{constants_at, constants, count};
    each_truth(n, valid, out, nullptr, [=](u32 i) { return values.value(i); },
               [=](const Value& value) { return says(op, value, skip, take, given); });
}

// The same for views. `left` is zeroed first, and set if the host fallback is needed. Bound: 16 bytes read a row.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_test_views(u32 op, const u32* __restrict__ views, const u32* __restrict__ valid, u32 skip, u32 take,
                    const u32* __restrict__ constants_at, const u32* __restrict__ constants, u32 count,
                    u32* __restrict__ out, u32* left, u32 n) {
    const Views values{views};
    const Constants given{constants_at, constants, count};
    each_truth(n, valid, out, left, [=](u32 i) { return values.value(i); },
               [=](const Value& value) { return says(op, value, skip, take, given); });
}

// The values of two columns in a row.
struct Both {
    Value a, b;
};

// Not inlined, as above.
__device__ __noinline__ Truth compared(u32 op, Value a, Value b) {
    if (op == EQ || op == NOT_EQ) {
        const Truth same = equal(a, b);
        return same == UNKNOWN || op == EQ ? same : same == YES ? NO : YES;
    }
    int order = 0;
    if (!compare(a, b, &order)) {
        return UNKNOWN;
    }
    return holds_of(op, order) ? YES : NO;
}

// Two columns compared row by row, as bits; `valid` says which rows have both values, and may be null. Bound: 16 bytes
// read a row and the bytes that decide, a bit written. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_test_columns(u32 op, const u32* __restrict__ left_offsets, const u32* __restrict__ left_bytes,
                      const u32* __restrict__ right_offsets, const u32* __restrict__ right_bytes,
                      const u32* __restrict__ valid, u32* __restrict__ out, u32 n) {
    const Bytes a{left_offsets, left_bytes}, b{right_offsets, right_bytes};
    each_truth(n, valid, out, nullptr, [=](u32 i) { return Both{a.value(i), b.value(i)}; },
               [=](const Both& both) { return compared(op, both.a, both.b); });
}

// The same for views. `left` as above.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_test_view_columns(u32 op, const u32* __restrict__ left_views, const u32* __restrict__ right_views,
                           const u32* __restrict__ valid, u32* __restrict__ out, u32* left, u32 n) {
    const Views a{left_views}, b{right_views};
    each_truth(n, valid, out, left, [=](u32 i) { return Both{a.value(i), b.value(i)}; },
               [=](const Both& both) { return compared(op, both.a, both.b); });
}

// The first byte of a substring and its length in bytes.
struct Span {
    u32 start, length;
};

// The position of `take` characters after the first `skip` of each value, and their number of bytes: 0 for a NULL.
// `text_gather` then gathers them. `valid` may be null. Bound: 8 bytes and the characters read, 8 written a row.
// Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_test_spans(const u32* __restrict__ offsets, const u32* __restrict__ bytes, const u32* __restrict__ valid, u32 skip,
                    u32 take, u32* __restrict__ starts, u32* __restrict__ lengths, u32 n) {
    const Bytes values{offsets, bytes};
    each_row(
        n,
        [=](u32 i) {
            Value value = values.value(i);
            if (!bit_at(valid, i)) {
                return Span{value.at, 0};
            }
            slice(&value, skip, take);
            return Span{value.at, value.length};
        },
        [=](u32 i, Span span) {
            starts[i] = span.start;
            lengths[i] = span.length;
        });
}

// Views of `take` characters after the first `skip` of each value, if they are all known and have at most 12 bytes;
// otherwise `left`, which is zeroed first, is set. The view of a NULL is zero. Bound: 16 bytes read and written a row.
// Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_test_slices(const u32* __restrict__ views, const u32* __restrict__ valid, u32 skip, u32 take, uint4* __restrict__ out,
                     u32* left, u32 n) {
    const Views values{views};
    each_row(
        n,
        [=](u32 i) {
            Value value = values.value(i);
            if (!bit_at(valid, i)) {
                return make_uint4(0, 0, 0, 0);
            }
            if (!slice(&value, skip, take) || !value.whole() || value.length > INLINE_BYTES) {
                *left = 1;
                return make_uint4(0, 0, 0, 0);
            }
            const u128 text = value.length == 0 ? 0 : load_bytes(value.base, value.at, value.length);
            return make_uint4(value.length, (u32)text, (u32)(text >> 32), (u32)(text >> 64));
        },
        [=](u32 i, uint4 view) { out[i] = view; });
}
