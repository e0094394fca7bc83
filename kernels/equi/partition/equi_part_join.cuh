// The join of the partitions of two sides: a block for each piece of the probe side.
#pragma once

#include "equi/partition/equi_part_probe.cuh"

// Each item's position in the table (low half) and its output position among the warp's matches (high half): one word,
// from which any number of columns is written.
struct PartHits {
    u32 packed[JOIN_ITEMS];

    __device__ __forceinline__ bool has(u32 k) const { return packed[k] != NONE; }
    __device__ __forceinline__ u32 place(u32 k) const { return packed[k] >> 16; }
    __device__ __forceinline__ u32 found(u32 k) const { return packed[k] & 0xFFFFu; }

    // Reserves output rows for the warp's matches, without waiting for other warps. Returns the first position.
    __device__ __forceinline__ u64 reserve(u64 room, u64* written, u32* status) {
        const u32 lane = threadIdx.x % WARP;
        u32 total = 0;
#pragma unroll
        for (u32 k = 0; k < JOIN_ITEMS; k++) {
            const u32 lanes = __ballot_sync(ALL_LANES, has(k));
            packed[k] |= has(k) ? (total + __popc(lanes & ((1u << lane) - 1))) << 16 : 0;
            total += __popc(lanes);
        }
        u64 first = 0;
        if (lane == 0 && total > 0) {
            first = atomicAdd(written, u64(total));
        }
        first = __shfl_sync(ALL_LANES, first, 0);
        if (first + total > room) {
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                packed[k] = NONE;
            }
            if (lane == 0) {
                atomicOr(status, NO_ROOM);
            }
        }
        return first;
    }
};

// Whether the first column's values are loaded together with the keys, long before they are used.
__device__ __forceinline__ bool comes_early(const Column* columns, u32 count) {
    return count > 0 && columns[0].width == 4;
}

template <class Key, class Table>
__device__ __forceinline__ void part_join(const PartSides<Key>& sides, Table table, u32 capacity, const JoinColumns<Key>& columns,
                                          u64 room, u64* written, u32* status) {
    const u32 staged = min(columns.staged, columns.build_count);
    u32 build_values[JOIN_BUILD_ITEMS];
    each_piece(
        sides, table, capacity, status,
        [](const ProbeRows<Key>&) {},
        [&](const BuildRows<Key>& build, u32 build_begin) {
            if (comes_early(columns.build, columns.build_count)) {
                load_build_values(columns.build[0], build, build_begin, build_values);
            }
        },
        [&](const ProbeRows<Key>& probe, const BuildRows<Key>& build, u32 build_begin) {
#pragma unroll 1
            for (u32 c = 0; c < staged; c++) {
                if (c > 0 || !comes_early(columns.build, columns.build_count)) {
                    load_build_values(columns.build[c], build, build_begin, build_values);
                }
                stage_build_values(table, build, table.staged + c * capacity, build_values);
            }
            __syncthreads();
            PartHits hits;
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                const u32 found = table.find(probe.keys[k]);
                hits.packed[k] = probe.has(k) ? found : NONE;
            }
            const u64 first = hits.reserve(room, written, status);
            if (columns.out_keys != nullptr) {
                write_column<JOIN_ITEMS>(hits, columns.out_keys + first, [&](u32 k) { return unmix(same_key(probe.keys[k])); });
            }
#pragma unroll 1
            for (u32 c = 0; c < columns.probe_count; c++) {
                keep_packed(hits.packed);
                const Column column = columns.probe[c];
                with_width(column, [&](auto value) {
                    using Value = decltype(value);
                    const Value* const in = static_cast<const Value*>(column.in) + probe.row(0);
                    write_column<JOIN_ITEMS>(hits, static_cast<Value*>(column.out) + first,
                                             [&](u32 k) { return in[k * JOIN_THREADS]; });
                });
            }
#pragma unroll 1
            for (u32 c = 0; c < columns.build_count; c++) {
                keep_packed(hits.packed);
                const Column column = columns.build[c];
                const u32* values = table.staged + c * capacity;
                if (c >= staged) {
                    values = table.staged;
                    __syncthreads();
                    const BuildRows<Key> again(sides.build_keys + build_begin, build.rows);
                    load_build_values(column, again, build_begin, build_values);
                    stage_build_values(table, again, table.staged, build_values);
                    __syncthreads();
                }
                // Values of 4 bytes are gathered from shared memory, whose banks serve scattered reads best; for longer
                // values shared memory holds the row.
                if (column.width == 4) {
                    write_column<JOIN_ITEMS>(hits, static_cast<u32*>(column.out) + first, [&](u32 k) { return values[hits.found(k)]; });
                    continue;
                }
                with_width(column, [&](auto value) {
                    using Value = decltype(value);
                    const Value* const in = static_cast<const Value*>(column.in) + build_begin;
                    write_column<JOIN_ITEMS>(hits, static_cast<Value*>(column.out) + first,
                                             [&](u32 k) { return in[values[hits.found(k)]]; });
                });
            }
        },
        [](const ProbeRows<Key>&) {});
}

// The inner join of two partitioned sides, materialised: for each match, in no order, the key (if out_keys is not null)
// and the values of both sides' columns; *written matches. With GFTR the columns are payload that was partitioned along
// with the keys, with GFUR row numbers. Build keys should be unique: blocks that find a duplicate key set
// DUPLICATE_KEYS in *status, and the results are invalid. NO_ROOM: there were more than `room` results, and not all are
// written.
// Bound: keys and columns of both sides read once, those of the build side once more for each further piece of a
// partition; results written. Launch: blocks of 512 that process pieces round-robin, as many blocks as are resident;
// `most` of equi_part_pieces is 4608; dynamic shared memory: 4 * slots + (size of a key + 4 * staged) * capacity bytes;
// `slots` is a power of two, more than `capacity`, which is at most 2560; a partition of more build keys has a step for
// each `capacity` of them; `staged` (1 or more) is the number of build columns in shared memory at a time. *written and
// *status are zeroed first.
#define PART_JOIN(name, Key)                                                                                          \
    extern "C" __global__ void __launch_bounds__(JOIN_THREADS, JOIN_BLOCKS) equi_part_join_##name(                    \
        const Key* __restrict__ build_keys, const Column* __restrict__ build_columns, u32 build_count,                \
        const Key* __restrict__ probe_keys, const Column* __restrict__ probe_columns, u32 probe_count,                \
        const Piece* __restrict__ pieces, const u32* __restrict__ piece_count, u32 capacity, u32 slots, u32 staged,   \
        Key* out_keys, u64 room, u64* written, u32* status) {                                                         \
        part_join<Key>({build_keys, probe_keys, pieces, piece_count}, PartTable<Key>(capacity, slots), capacity,      \
                       {build_columns, build_count, probe_columns, probe_count, staged, out_keys}, room, written, status); \
    }

PART_JOIN(u32, u32)
PART_JOIN(u64, u64)

// The same for keys of 32 bits in partitions by their highest 13 to 16 bits. Dynamic shared memory: 4 * cells + 4 *
// staged * capacity bytes; `cells` is 2^(28 - bits).
extern "C" __global__ void __launch_bounds__(JOIN_THREADS, JOIN_BLOCKS) equi_part_join_bits_u32(
    const u32* __restrict__ build_keys, const Column* __restrict__ build_columns, u32 build_count,
    const u32* __restrict__ probe_keys, const Column* __restrict__ probe_columns, u32 probe_count,
    const Piece* __restrict__ pieces, const u32* __restrict__ piece_count, u32 capacity, u32 cells, u32 staged, u32* out_keys,
    u64 room, u64* written, u32* status) {
    __shared__ u32 taken;
    part_join<u32>({build_keys, probe_keys, pieces, piece_count}, BitTable(cells, &taken), capacity,
                   {build_columns, build_count, probe_columns, probe_count, staged, out_keys}, room, written, status);
}

template <class Key>
__device__ __forceinline__ void part_find(const PartSides<Key>& sides, u32 capacity, u32 slots, u32* out, u32* status) {
    PartTable<Key> table(capacity, slots);
    u32 positions[JOIN_ITEMS];
    each_piece(
        sides, table, capacity, status,
        [&](const ProbeRows<Key>&) {
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                positions[k] = NONE;
            }
        },
        [](const BuildRows<Key>&, u32) {},
        [&](const ProbeRows<Key>& probe, const BuildRows<Key>&, u32 build_begin) {
            bool again = false;
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                const u32 found = probe.has(k) ? table.find(probe.keys[k]) : NONE;
                again = again || (found != NONE && positions[k] != NONE);
                positions[k] = found != NONE ? build_begin + found : positions[k];
            }
            if (again) {
                atomicOr(status, DUPLICATE_KEYS);
            }
        },
        [&](const ProbeRows<Key>& probe) {
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                if (probe.has(k)) {
                    out[probe.row(k)] = positions[k];
                }
            }
        });
}

// out[i] = the position of the build row with the key of probe position i, or NONE; for all join types, and for groups,
// where the build side is the distinct keys and a position is a group. Pieces are made with `all` set, so that every
// position is written.
// Bound: keys read once, those of the build side once for each piece; 4 bytes written. Launch, *status: as
// equi_part_join_*, with 4 * slots + size of a key * capacity bytes of dynamic shared memory.
#define PART_FIND(name, Key)                                                                                         \
    extern "C" __global__ void __launch_bounds__(JOIN_THREADS, JOIN_BLOCKS) equi_part_find_##name(                   \
        const Key* __restrict__ build_keys, const Key* __restrict__ probe_keys, const Piece* __restrict__ pieces,    \
        const u32* __restrict__ piece_count, u32 capacity, u32 slots, u32* __restrict__ out, u32* status) {          \
        part_find<Key>({build_keys, probe_keys, pieces, piece_count}, capacity, slots, out, status);                 \
    }

PART_FIND(u32, u32)
PART_FIND(u64, u64)
