// Joining the partitions of two sides, a block for each piece of the probe side.
#pragma once

#include "equi_emit.cuh"
#include "equi_part_table.cuh"

// The place of each item's build row in the table's chunk, below that of its result in the block's: one word of an item, since
// columns of any number are written from it.
struct PartHits {
    u32 packed[JOIN_ITEMS];
    static_assert(JOIN_ROWS < 0xFFFF, "a block's results are numbered by 16 bits");

    __device__ __forceinline__ bool has(u32 k) const { return packed[k] != NONE; }
    __device__ __forceinline__ u32 place(u32 k) const { return packed[k] >> 16; }
    __device__ __forceinline__ u32 found(u32 k) const { return packed[k] & 0xFFFFu; }
};

__device__ __forceinline__ void stage_column(u32* staged, const Column& column, u32 begin, u32 rows) {
    const u32* const in = static_cast<const u32*>(column.in) + begin;
#pragma unroll 4
    for (u32 r = threadIdx.x; r < rows; r += JOIN_THREADS) {
        staged[r] = in[r];
    }
}

template <class Key>
__device__ __forceinline__ void part_join(
    const Partitioned<Key>& build, const Column* build_columns, u32 build_count, const Key* probe_keys,
    const Column* probe_columns, u32 probe_count, const Piece* pieces, const u32* piece_count, u32 capacity, u32 slots,
    Key* out_keys, u64 room, u64* written, u32* status) {
    __shared__ Places<JOIN_WARPS> places;
    if (blockIdx.x >= *piece_count) {
        return;
    }
    const ProbePiece<Key> probe(pieces[blockIdx.x], probe_keys);
    PartTable<Key> table(capacity, slots);
    // The first column comes with the keys, in one wait for memory.
    const bool first_is_staged = build_count > 0 && build_columns[0].width == 4;
    probe.probe(
        build, table, capacity, status,
        [&](u32 begin, u32 rows) {
            if (first_is_staged) {
                stage_column(table.staged, build_columns[0], begin, rows);
            }
        },
        [&](const u32 (&found)[JOIN_ITEMS], u32 begin, u32 rows) {
            PartHits hits;
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                hits.packed[k] = NONE;
            }
            u64 first;
            if (!places.take(found, room, written, status, first,
                             [&](u32 k, u32 place) { hits.packed[k] = place << 16 | found[k]; })) {
                return;
            }
            if (out_keys != nullptr) {
                write_column<JOIN_ITEMS>(hits, out_keys + first, [&](u32 k) { return unmix(probe.keys[k]); });
            }
#pragma unroll 1
            for (u32 c = 0; c < probe_count; c++) {
                keep_packed(hits.packed);
                const Column column = probe_columns[c];
                with_width(column, [&](auto value) {
                    using Value = decltype(value);
                    const Value* const in = static_cast<const Value*>(column.in) + probe.row(0);
                    write_column<JOIN_ITEMS>(hits, static_cast<Value*>(column.out) + first,
                                             [&](u32 k) { return in[k * JOIN_THREADS]; });
                });
            }
#pragma unroll 1
            for (u32 c = 0; c < build_count; c++) {
                keep_packed(hits.packed);
                const Column column = build_columns[c];
                // Values of 4 bytes are picked from shared memory, whose banks serve scattered reads best.
                if (column.width == 4) {
                    if (c > 0) {
                        __syncthreads();
                        stage_column(table.staged, column, begin, rows);
                        __syncthreads();
                    }
                    write_column<JOIN_ITEMS>(hits, static_cast<u32*>(column.out) + first,
                                             [&](u32 k) { return table.staged[hits.found(k)]; });
                    continue;
                }
                with_width(column, [&](auto value) {
                    using Value = decltype(value);
                    const Value* const in = static_cast<const Value*>(column.in) + begin;
                    write_column<JOIN_ITEMS>(hits, static_cast<Value*>(column.out) + first,
                                             [&](u32 k) { return in[hits.found(k)]; });
                });
            }
        });
}

// The inner join of two partitioned sides, materialised: for each pair of rows with one key, in no order, the key (where
// out_keys is not null) and the values of both sides' columns; *written pairs. By GFTR the columns are payload that went
// through the partition, by GFUR row numbers. Build keys should be unique: blocks that find two of one key set DUPLICATE_KEYS
// in *status, and the results are of no use. NO_ROOM says that more than `room` results came, and not all are written.
// Bound: keys and columns of both sides read once, those of the build side once more for each further piece of a partition;
// results written. Launch: blocks of 512, one for each possible piece (partitions + rows / 4608; `most` of equi_part_pieces is
// 4608), with 4 * slots + (4 + size of a key) * capacity bytes of dynamic shared memory; `slots` is a power of two, more than
// `capacity`, which is at most 32768; a partition of more build keys takes a step for each `capacity` of them. *written and
// *status are zeroed first. 3072 keys and 4096 slots (40 KiB) suit partitions of 2048 keys of 4 bytes.
#define PART_JOIN(name, Key)                                                                                          \
    extern "C" __global__ void __launch_bounds__(JOIN_THREADS, 2) equi_part_join_##name(                              \
        const Key* __restrict__ build_keys, const u32* __restrict__ build_starts, const Column* __restrict__ build_columns, \
        u32 build_count, const Key* __restrict__ probe_keys, const Column* __restrict__ probe_columns, u32 probe_count, \
        const Piece* __restrict__ pieces, const u32* __restrict__ piece_count, u32 capacity, u32 slots, Key* out_keys, \
        u64 room, u64* written, u32* status) {                                                                        \
        part_join<Key>({build_keys, build_starts}, build_columns, build_count, probe_keys, probe_columns, probe_count, \
                       pieces, piece_count, capacity, slots, out_keys, room, written, status);                        \
    }

PART_JOIN(u32, u32)
PART_JOIN(u64, u64)

template <class Key>
__device__ __forceinline__ void part_find(
    const Partitioned<Key>& build, const Key* probe_keys, const Piece* pieces, const u32* piece_count, u32 capacity, u32 slots,
    u32* out, u32* status) {
    if (blockIdx.x >= *piece_count) {
        return;
    }
    const ProbePiece<Key> probe(pieces[blockIdx.x], probe_keys);
    PartTable<Key> table(capacity, slots);
    u32 positions[JOIN_ITEMS];
#pragma unroll
    for (u32 k = 0; k < JOIN_ITEMS; k++) {
        positions[k] = NONE;
    }
    probe.probe(
        build, table, capacity, status, [](u32, u32) {},
        [&](const u32 (&found)[JOIN_ITEMS], u32 begin, u32) {
            bool again = false;
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                again = again || (found[k] != NONE && positions[k] != NONE);
                positions[k] = found[k] != NONE ? begin + found[k] : positions[k];
            }
            if (again) {
                atomicOr(status, DUPLICATE_KEYS);
            }
        });
#pragma unroll
    for (u32 k = 0; k < JOIN_ITEMS; k++) {
        if (probe.has(k)) {
            out[probe.row(k)] = positions[k];
        }
    }
}

// out[i] = the position of the build row that has the key of the probe side's position i, or NONE; for all join types, and for
// groups, where the build side is the distinct keys and a position is a group. Pieces are made with `build_starts` null, so that
// every position is written.
// Bound: keys read once, those of the build side once for each piece; 4 bytes written. Launch, *status: as equi_part_join_*.
#define PART_FIND(name, Key)                                                                                         \
    extern "C" __global__ void __launch_bounds__(JOIN_THREADS, 2) equi_part_find_##name(                             \
        const Key* __restrict__ build_keys, const u32* __restrict__ build_starts, const Key* __restrict__ probe_keys, \
        const Piece* __restrict__ pieces, const u32* __restrict__ piece_count, u32 capacity, u32 slots,              \
        u32* __restrict__ out, u32* status) {                                                                        \
        part_find<Key>({build_keys, build_starts}, probe_keys, pieces, piece_count, capacity, slots, out, status);   \
    }

PART_FIND(u32, u32)
PART_FIND(u64, u64)
