// How blocks process pieces: a table of the partition's build keys, probed by the rows of the piece.
#pragma once

#include "equi/partition/equi_part_table.cuh"

// Both sides in partitions: mixed keys, and the pieces.
template <class Key>
struct PartSides {
    const Key* build_keys;
    const Key* probe_keys;
    const Piece* pieces;
    const u32* piece_count;
};

// Input and output columns of a join; `staged` build columns are in shared memory at a time.
template <class Key>
struct JoinColumns {
    const Column* build;
    u32 build_count;
    const Column* probe;
    u32 probe_count;
    u32 staged;
    Key* out_keys;
};

// The piece of one block, with a probe row for each item of a thread.
template <class Key>
struct ProbeRows {
    Piece piece;
    Key keys[JOIN_ITEMS];

    __device__ __forceinline__ u32 place(u32 k) const { return k * JOIN_THREADS + threadIdx.x; }
    __device__ __forceinline__ u32 row(u32 k) const { return piece.first + place(k); }
    __device__ __forceinline__ bool has(u32 k) const { return place(k) < piece.rows; }

    __device__ __forceinline__ ProbeRows(const Piece& piece, const Key* probe_keys) : piece(piece) {
#pragma unroll
        for (u32 k = 0; k < JOIN_ITEMS; k++) {
            keys[k] = has(k) ? probe_keys[row(k)] : Key(0);
        }
    }
};

// The values of a build column for the rows that this thread has loaded; for values of more than 4 bytes, their rows.
template <class Key>
__device__ __forceinline__ void load_build_values(const Column& column, const BuildRows<Key>& build, u32 build_begin,
                                                  u32 (&values)[JOIN_BUILD_ITEMS]) {
    const u32* const in = column.width == 4 ? static_cast<const u32*>(column.in) + build_begin : nullptr;
#pragma unroll
    for (u32 j = 0; j < JOIN_BUILD_ITEMS; j++) {
        values[j] = in == nullptr || !build.has(j) ? build.at(j) : in[build.at(j)];
    }
}

// Stores them at the positions that the table's `find` returns.
template <class Key, class Table>
__device__ __forceinline__ void stage_build_values(const Table& table, const BuildRows<Key>& build, u32* staged,
                                                   const u32 (&values)[JOIN_BUILD_ITEMS]) {
    u32 places[JOIN_BUILD_ITEMS];
#pragma unroll
    for (u32 j = 0; j < JOIN_BUILD_ITEMS; j++) {
        places[j] = table.place(build, j);
    }
#pragma unroll
    for (u32 j = 0; j < JOIN_BUILD_ITEMS; j++) {
        if (build.has(j)) {
            staged[places[j]] = values[j];
        }
    }
}

// Processes the pieces of this block, round-robin: `start(probe)`; then for each chunk of at most `capacity` build rows
// of the partition, which begins at `begin`, `load(build, begin)` before the table is built and `take(probe, build,
// begin)` after it; then `finish(probe)`. Ends early if build keys turn out to have duplicates.
template <class Key, class Table, typename Start, typename Load, typename Take, typename Finish>
__device__ __forceinline__ void each_piece(const PartSides<Key>& sides, Table& table, u32 capacity, u32* status, Start start, Load load,
                                           Take take, Finish finish) {
    const u32 count = *sides.piece_count;
#pragma unroll 1
    for (u32 p = blockIdx.x; p < count; p += gridDim.x) {
        const ProbeRows<Key> probe(sides.pieces[p], sides.probe_keys);
        start(probe);
        const u32 end = probe.piece.build + probe.piece.build_rows;
#pragma unroll 1
        for (u32 begin = probe.piece.build; begin < end; begin += capacity) {
            const BuildRows<Key> build(sides.build_keys + begin, min(capacity, end - begin));
            load(build, begin);
            const bool useless = threadIdx.x == 0 && (*static_cast<const volatile u32*>(status) & DUPLICATE_KEYS) != 0;
            if (__syncthreads_or(useless)) {
                return;
            }
            if (table.insert(build)) {
                atomicOr(status, DUPLICATE_KEYS);
            }
            // The table must be complete before it is probed.
            __syncthreads();
            take(probe, build, begin);
        }
        finish(probe);
    }
}
