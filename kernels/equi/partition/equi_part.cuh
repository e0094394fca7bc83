// Radix partition of one side of an equi-join ([W] 4.1.4; all columns move in one pass, so partitions need no stable
// order), the beginnings of its partitions, and the pieces that blocks process.
//
// A partition is the rows whose mixed keys agree in their highest bits. Passes go from low to high bits. One or two
// passes of up to 8 bits that keep no more order than necessary (equi_part_spread_*) make up to 2^16 partitions; stable
// passes over all bits (equi_part_pass_*) sort a side by its mixed keys.
#pragma once

#include "equi/partition/equi_pass.cuh"
#include "equi/partition/equi_spread_pass.cuh"
#include "keys/sort_histogram.cuh"
#include "shared/search.cuh"

// As sort_histogram_*, of the mixed keys.
// Bound: the keys read once, and one shared-memory atomic for each key and pass. Launch: blocks of 256, grid-stride
// over tiles of 2048 keys, at most 8 blocks a multiprocessor; `passes` is at most 4 (u32) or 8 (u64); starts[256 *
// passes] and *blocks_done are zeroed first.
#define PART_HISTOGRAM(name, Key)                                                                                  \
    extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS) equi_part_histogram_##name(                    \
        const Key* keys, u32 n, u32 passes, u64 first_bits, u64 bit_counts, u32* starts, u32* blocks_done) {       \
        histogram(keys, n, passes, first_bits, bit_counts, starts, blocks_done, [](Key key) { return mix(key); }); \
    }

PART_HISTOGRAM(u32, u32)
PART_HISTOGRAM(u64, u64)

// One pass: moves n keys to the output positions of the digits of their mixed keys, with `column_count` columns; keys
// with the same digit keep their order. If `mixed` is 0, the input is unmixed keys and the output mixed ones; otherwise
// keys are mixed already. A column that is null stands for row numbers from first_row. `starts`, `next_starts`,
// portions: as sort_onesweep_*.
// Bound: a key and its columns' values read and written once; ranking limits it to about 6 ps a row, and a column of 4
// bytes adds 2. Launch: blocks of 512, one for each tile of 5632 keys, no dynamic shared memory;
// lookback[256 * tiles] and *next_tile are zeroed before each launch. Input and output do not overlap.
#define PART_PASS(name, Key)                                                                                       \
    extern "C" __global__ void __launch_bounds__(PASS_THREADS, 2) equi_part_pass_##name(                           \
        const Key* keys_in, u32 mixed, u32 first_row, u32 n, Key* keys_out, const Column* columns,                 \
        u32 column_count, const u32* starts, u32* next_starts, u32 first_bit, u32 bits, i32* lookback,             \
        i32* next_tile) {                                                                                          \
        partition_pass(keys_in, mixed, first_row, n, keys_out, columns, column_count, starts, next_starts,         \
                       first_bit, bits, lookback, next_tile);                                                      \
    }

PART_PASS(u32, u32)
PART_PASS(u64, u64)

// starts[p] = the number of rows in partitions below p, for p in 0..=2^bits. Rows are in the order of the highest
// `bits` (1 to 24) bits of their mixed keys.
// Bound: about log2(n) dependent reads a partition. Launch: blocks of 256, a thread for each of the 2^bits + 1
// partition bounds.
template <class Key>
__device__ __forceinline__ void part_starts(const Key* mixed, u32 n, u32 bits, u32* starts) {
    const u32 p = blockIdx.x * BLOCK + threadIdx.x;
    const u32 shift = sizeof(Key) * 8 - bits;
    if (p <= 1u << bits) {
        starts[p] = partition_point(0, n, [=](u32 i) { return u32(mixed[i] >> shift) < p; });
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    equi_part_starts_u32(const u32* __restrict__ mixed, u32 n, u32 bits, u32* __restrict__ starts) {
    part_starts(mixed, n, bits, starts);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    equi_part_starts_u64(const u64* __restrict__ mixed, u32 n, u32 bits, u32* __restrict__ starts) {
    part_starts(mixed, n, bits, starts);
}

// A piece of a probe-side partition for one block, and the build rows of that partition.
struct alignas(16) Piece {
    u32 build, build_rows, first, rows;
};

// Cuts each partition of the probe side into pieces of equal length, at most `most` rows (a multiple of 32), so that a
// heavy partition keeps many blocks busy: pieces[0 .. *count], in any order. Partitions without build rows are skipped
// unless `all` is set.
// Bound: 16 bytes a partition and 16 a piece. Launch: blocks of 256, a thread for each partition; `pieces` has capacity
// for partitions + rows / most pieces; *count is zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
    equi_part_pieces(const u32* __restrict__ probe_starts, const u32* __restrict__ build_starts, u32 all, u32 partitions, u32 most,
                     Piece* __restrict__ pieces, u32* count) {
    const u32 p = blockIdx.x * BLOCK + threadIdx.x;
    const u32 lane = threadIdx.x % WARP;
    u32 first = 0, rows = 0, build = 0, build_rows = 0;
    if (p < partitions) {
        build = build_starts[p];
        build_rows = build_starts[p + 1] - build;
        first = probe_starts[p];
        rows = all != 0 || build_rows > 0 ? probe_starts[p + 1] - first : 0;
    }
    const u32 mine = (rows + most - 1) / most;
    u32 through = mine;
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        const u32 lower = __shfl_up_sync(ALL_LANES, through, distance);
        through += lane >= distance ? lower : 0;
    }
    u32 base = 0;
    if (lane == WARP - 1 && through > 0) {
        base = atomicAdd(count, through);
    }
    base = __shfl_sync(ALL_LANES, base, WARP - 1) + through - mine;

    // The warp writes the pieces of one partition after the other; most partitions have one piece.
    for (u32 rest = __ballot_sync(ALL_LANES, mine > 0); rest != 0; rest &= rest - 1) {
        const u32 owner = __ffs(rest) - 1;
        const u32 begin = __shfl_sync(ALL_LANES, first, owner);
        const u32 total = __shfl_sync(ALL_LANES, rows, owner);
        const u32 number = __shfl_sync(ALL_LANES, mine, owner);
        const u32 at = __shfl_sync(ALL_LANES, base, owner);
        const u32 build_begin = __shfl_sync(ALL_LANES, build, owner);
        const u32 build_total = __shfl_sync(ALL_LANES, build_rows, owner);
        const u32 length = ((total + number - 1) / number + WARP - 1) / WARP * WARP;
        for (u32 k = lane; k < number; k += WARP) {
            const u32 from = min(k * length, total);
            pieces[at + k] = {build_begin, build_total, begin + from, min(length, total - from)};
        }
    }
}
