// Rows that are in an order of their keys: each run of equal keys is a group, aggregated as it is ([D] table 1, segmented reduction).
//
// Rows are in an order of key columns if, wherever two neighbours differ in a column and not in those before it, the values ascend, or everywhere
// descend, and NULLs come first, or everywhere last.
#include "aggregate/group_sorted.cuh"

// A key column: values that compare as their order keys, and the code Kind.
struct RunKey {
    const void* values;
    // Null: all are valid.
    const u32* valid;
    u32 kind, unused;
};

constexpr u32 MAX_RUN_KEYS = 16;

// A kernel argument.
struct RunKeys {
    RunKey of[MAX_RUN_KEYS];
    u64 count;
};

// How neighbours differ in a column; in the upper half where one is NULL.
enum Step : u32 { EQUAL = 0, ASCENDS = 1, DESCENDS = 2, NULL_BEFORE = 1 << 16, NULL_AFTER = 2 << 16 };

__device__ __forceinline__ u64 run_word(const RunKey& key, u32 row) {
    const u64 word = value_at(key.values, key.kind, row);
    // The zeros are one value.
    const bool is_zero = (key.kind == F32 && (u32)word << 1 == 0) || (key.kind == F64 && word << 1 == 0);
    return order_key(key.kind, is_zero ? 0 : word);
}

__device__ __forceinline__ u32 step_of(const RunKey& key, u32 before, u32 row) {
    const bool is_valid = bit_at(key.valid, row);
    if (bit_at(key.valid, before) != is_valid) {
        return is_valid ? NULL_BEFORE : NULL_AFTER;
    }
    if (!is_valid) {
        return EQUAL;
    }
    if (key.kind >= I128) {
        const i32 order = compare_wide(static_cast<const u64*>(key.values), key.kind == I128 ? 2 : 4, before, row);
        return order < 0 ? ASCENDS : order > 0 ? DESCENDS : EQUAL;
    }
    const u64 earlier = run_word(key, before), later = run_word(key, row);
    return earlier < later ? ASCENDS : earlier > later ? DESCENDS : EQUAL;
}

// The bits of a warp's share of rows, one word in each lane, and the steps that were seen: two bits for each key, those of NULLs apart.
struct Seen {
    u32 heads = 0;
    u32 values = 0;
    u32 nulls = 0;

    __device__ __forceinline__ void add(u32 k, u32 key, u32 step, bool is_first) {
        values |= (step & 0xFFFF) << 2 * key;
        nulls |= (step >> 16) << 2 * key;
        const u32 word = __ballot_sync(ALL_LANES, is_first || step != EQUAL);
        if (threadIdx.x % WARP == k) {
            heads = word;
        }
    }
};

// One key of 32 or 64 bits without NULLs: each value is read once.
template <typename T>
__device__ __forceinline__ void look_at_word(const void* values, u32 begin, u32 end, Seen& seen) {
    const T* const at = static_cast<const T*>(values);
    const u32 lane = threadIdx.x % WARP;
    T last = begin == 0 ? __ldg(at) : __ldg(at + begin - 1);
    for (u32 from = 0; from < WARP; from += ROWS) {
        T word[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 row = begin + (from + k) * WARP + lane;
            word[k] = row < end ? __ldg(at + row) : T(0);
        }
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 row = begin + (from + k) * WARP + lane;
            T before = __shfl_up_sync(ALL_LANES, word[k], 1);
            before = lane == 0 ? last : before;
            last = __shfl_sync(ALL_LANES, word[k], WARP - 1);
            const u32 step = row >= end || before == word[k] ? EQUAL : before < word[k] ? ASCENDS : DESCENDS;
            seen.add(from + k, 0, step, row == 0);
        }
    }
}

__device__ __forceinline__ void look_at_keys(const RunKeys& keys, u32 begin, u32 end, Seen& seen) {
    for (u32 k = 0; k < WARP; k++) {
        const u32 row = begin + k * WARP + threadIdx.x % WARP;
        u32 step = EQUAL, key = 0;
        if (row > 0 && row < end) {
            while (key < (u32)keys.count && (step = step_of(keys.of[key], row - 1, row)) == EQUAL) {
                key++;
            }
        }
        seen.add(k, min(key, MAX_RUN_KEYS - 1), step, row == 0);
    }
}

// Sets the bit of each row that begins a run, and adds the steps between neighbours to `steps`: two words of two bits for each key, of values and of
// NULLs. `heads` has whole words; bits from `n` on are 0.
// Bound: the keys' bytes read, and a bit written, a row: one key of 32 bits at the rate of a copy's read.
// Launch: blocks of 256, one for each 8192 rows.
extern "C" __global__ void __launch_bounds__(BLOCK) group_runs_heads(const __grid_constant__ RunKeys keys, u32 n, u32* heads, u32* steps) {
    const u32 begin = (blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP) * SHARE_ROWS;
    if (begin >= n) {
        return;
    }
    const u32 end = min(n, begin + SHARE_ROWS);
    Seen seen;
    const RunKey& first = keys.of[0];
    const u32 kind = keys.count == 1 && first.valid == nullptr ? first.kind : BIT;
    switch (kind) {
        case U32: look_at_word<u32>(first.values, begin, end, seen); break;
        case I32: look_at_word<i32>(first.values, begin, end, seen); break;
        case U64: look_at_word<u64>(first.values, begin, end, seen); break;
        case I64: look_at_word<i64>(first.values, begin, end, seen); break;
        default: look_at_keys(keys, begin, end, seen); break;
    }
    const u32 lane = threadIdx.x % WARP;
    if (begin + lane * WARP < end) {
        heads[begin / WARP + lane] = seen.heads;
    }
    for (u32 lanes = WARP / 2; lanes > 0; lanes /= 2) {
        seen.values |= __shfl_xor_sync(ALL_LANES, seen.values, lanes);
        seen.nulls |= __shfl_xor_sync(ALL_LANES, seen.nulls, lanes);
    }
    // Nearly all warps see what others saw.
    if (lane == 0 && (seen.values & ~look_now(steps)) != 0) {
        atomicOr(steps, seen.values);
    }
    if (lane == 0 && (seen.nulls & ~look_now(steps + 1)) != 0) {
        atomicOr(steps + 1, seen.nulls);
    }
}

// Runs that begin before a warp's share of rows: `offsets` has those before each 8192 rows.
__device__ __forceinline__ u32 runs_before(const u32* heads, const u32* offsets, u32 begin) {
    constexpr u32 TILE_ROWS = BLOCK / WARP * SHARE_ROWS;
    const u32 first_word = begin / TILE_ROWS * (TILE_ROWS / WARP);
    u32 runs = 0;
    for (u32 word = first_word + threadIdx.x % WARP; word < begin / WARP; word += WARP) {
        runs += __popc(__ldg(heads + word));
    }
    for (u32 lanes = WARP / 2; lanes > 0; lanes /= 2) {
        runs += __shfl_xor_sync(ALL_LANES, runs, lanes);
    }
    return __ldg(offsets + begin / TILE_ROWS) + runs;
}

// Aggregates rows into their runs' results, which hold the neutral elements first. `offsets`: the runs that begin before each 8192 rows. The row ids
// of FIRST_ROW and ARG_* are positions. The grid's second dimension is the accumulator.
// Bound: for each accumulator a bit and the value read a row, a result written a run; two atomics for 1024 rows.
// Launch: blocks of 256, one for each 8192 rows. Accumulates COUNT, SUM*, AND, OR, XOR, FIRST_ROW and ARG_*.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_runs_fold(const u32* heads, const u32* offsets, u32 n, const __grid_constant__ Accumulators accumulators) {
    const u32 begin = (blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP) * SHARE_ROWS;
    if (begin >= n) {
        return;
    }
    const u32 end = min(n, begin + SHARE_ROWS);
    const RunNumbers numbers{heads, runs_before(heads, offsets, begin)};
    accumulate_share(accumulators.of[blockIdx.y], numbers, begin, end, accumulators.capacity);
}
