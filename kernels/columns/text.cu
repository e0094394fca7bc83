// Values of variable width, text and binary: their gather, and their words as keys. A column is offsets (u32, one more
// than rows) into bytes; fixed-size binary has a width instead of offsets. CPU counterparts:
// src/device/host/columns/values.rs, and the ranked keys and groups of order_keys.rs and group_ids.rs.
//
// Gather: text_spans; a scan of the lengths into 64 bits, whose total is checked; text_offsets; text_gather.
#include "shared/common.cuh"
#include "shared/search.cuh"
#include "columns/text_bytes.cuh"
#include "columns/text_words.cuh"
#include "shared/tile.cuh"

// The first byte of a value and its length in bytes.
struct Span {
    u32 start, length;
};

// The start and the length of the value of each gathered row; the length is 0 for a NULL and for NO_ROW. Bound: 4 bytes
// of row id and two neighbouring offsets at random read, 8 bytes written a row. Launch: blocks of 256, a block for each
// 1024 rows. `valid` may be null.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_spans(const u32* __restrict__ offsets, const u32* __restrict__ valid, const u32* __restrict__ rows,
               u32* __restrict__ starts, u32* __restrict__ lengths, u32 n) {
    each_row(
        n,
        [=](u32 i) {
            const u32 row = rows[i] == NO_ROW ? 0 : rows[i];
            const u32 start = offsets[row];
            const bool some = rows[i] != NO_ROW && bit_at(valid, row);
            return Span{start, some ? offsets[row + 1] - start : 0};
        },
        [=](u32 i, Span span) {
            starts[i] = span.start;
            lengths[i] = span.length;
        });
}

// Narrows 64-bit offsets that fit in 32 bits. Bound: 12 bytes an offset. Launch: blocks of 256, a block for each 1024
// offsets.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_offsets(const u64* __restrict__ in, u32* __restrict__ out, u32 n) {
    each_row(n, [=](u32 i) { return in[i]; }, [=](u32 i, u64 offset) { out[i] = (u32)offset; });
}

// Items of a block: rows, and words of 16 bytes of the output.
constexpr u32 GATHER_ITEMS = 2048;

// Offsets and starts of a tile's rows, and of the row before, as far as they are in shared memory; others are read from
// global memory.
struct Rows {
    const u32 *shared_offsets, *shared_starts, *offsets, *starts;
    u32 first, count;

    __device__ __forceinline__ u32 offset(u32 row) const {
        return row - first <= count ? shared_offsets[row - first] : offsets[row];
    }
    __device__ __forceinline__ u32 start(u32 row) const {
        return row - first < count ? shared_starts[row - first] : starts[row];
    }
    // The row after `row` that holds byte `at`, where `row` ends. It exists, behind any number of empty rows.
    __device__ __forceinline__ u32 next(u32 row, u32 at, u32 n) const {
        row++;
        for (u32 empty = 0; offset(row + 1) == at; empty++) {
            row++;
            if (empty == 8) {
                return partition_point(row, n, [&](u32 r) { return offsets[r] <= at; }) - 1;
            }
        }
        return row;
    }
};

// The bytes of gathered values, one after the other: `offsets` are their positions in the output, `starts` their
// positions in `bytes`. Rows and 16-byte words of the output form one merged order, in which a row precedes the first
// word that begins in it or after it. That order is cut into tiles of equal length, so neither a huge value nor any
// number of empty ones unbalances the blocks. Every word is written once, by one thread, however many values it holds.
// Bound: 8 bytes read a row, the values' bytes read at random and written. Launch: a block of 256 for each 2048 of `n`
// rows and ceil(offsets[n] / 16) words; offsets[n] < 2^31; `bytes` and `out` are aligned to 16, and `out` is allocated
// in whole words.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_gather(const u32* __restrict__ bytes, const u32* __restrict__ starts, const u32* __restrict__ offsets, u32 n,
                uint4* __restrict__ out) {
    __shared__ u32 shared_offsets[GATHER_ITEMS + 2];
    __shared__ u32 shared_starts[GATHER_ITEMS + 2];
    __shared__ u32 limits[2];
    const u32 total = offsets[n];
    const u32 items = n + (total + 15) / 16;
    const u32 begin = min(blockIdx.x * GATHER_ITEMS, items);
    const u32 end = min(begin + GATHER_ITEMS, items);
    if (threadIdx.x < 2 * WARP) {
        const u32 item = threadIdx.x < WARP ? begin : end;
        const u32 before = warp_partition_point(0, n, [&](u32 r) { return r + (offsets[r] + 15) / 16 < item; });
        if (threadIdx.x % WARP == 0) {
            limits[threadIdx.x / WARP] = before;
        }
    }
    __syncthreads();
    // The value before the tile's first row may extend into the tile.
    const u32 first = limits[0] == 0 ? 0 : limits[0] - 1;
    const u32 count = limits[1] - first;
    for (u32 k = threadIdx.x; k <= count; k += BLOCK) {
        shared_offsets[k] = offsets[first + k];
        if (k < count) {
            shared_starts[k] = starts[first + k];
        }
    }
    __syncthreads();

    const Rows rows{shared_offsets, shared_starts, offsets, starts, first, count};
    for (u32 w = begin - limits[0] + threadIdx.x; w < end - limits[1]; w += BLOCK) {
        u32 at = 16 * w;
        const u32 word_end = min(at + 16, total);
        u32 row = first + partition_point(0, count, [&](u32 k) { return shared_offsets[k] <= at; }) - 1;
        u128 word = 0;
        while (true) {
            const u32 value_end = min(rows.offset(row + 1), word_end);
            const u32 from = rows.start(row) + (at - rows.offset(row));
            word |= load_bytes(bytes, from, value_end - at) << (at % 16 * 8);
            at = value_end;
            if (at == word_end) {
                break;
            }
            row = rows.next(row, at, n);
        }
        out[w] = make_uint4((u32)word, (u32)(word >> 32), (u32)(word >> 64), (u32)(word >> 96));
    }
}

// `out[i] = values[rows[i]]`, zero for NO_ROW, for values of `units` units each: fixed widths for which there is no
// gather of whole values. Bound: a row id read, and a value read at random and written a row. Launch: blocks of 256, a
// block for each 1024 units.
#define GATHER_UNITS(bits, T)                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                        \
        text_gather_units##bits(const T* __restrict__ values, u32 units, const u32* __restrict__ rows,         \
                                T* __restrict__ out, u32 n) {                                                  \
        each_row(                                                                                              \
            n,                                                                                                 \
            [=](u32 i) {                                                                                       \
                const u32 row = rows[i / units];                                                               \
                const T value = values[(u64)(row == NO_ROW ? 0 : row) * units + i % units];                    \
                return row == NO_ROW ? T{} : value;                                                            \
            },                                                                                                 \
            [=](u32 i, T value) { out[i] = value; });                                                          \
    }

GATHER_UNITS(8, u8)
GATHER_UNITS(16, u16)
GATHER_UNITS(32, u32)
GATHER_UNITS(64, u64)
GATHER_UNITS(128, uint4)

// The row ids of a dictionary's values from its keys; NO_ROW for a NULL. Bound: a key read and 4 bytes written a row.
// Launch: blocks of 256, a block for each 1024 rows. `valid` may be null.
#define DICTIONARY_ROWS(bits, T)                                                                               \
    extern "C" __global__ void __launch_bounds__(BLOCK) text_dictionary_rows##bits(                            \
        const T* __restrict__ keys, const u32* __restrict__ valid, u32* __restrict__ out, u32 n) {             \
        each_row(n, [=](u32 i) { return bit_at(valid, i) ? (u32)keys[i] : NO_ROW; },                           \
                 [=](u32 i, u32 row) { out[i] = row; });                                                       \
    }

DICTIONARY_ROWS(8, u8)
DICTIONARY_ROWS(16, u16)
DICTIONARY_ROWS(32, u32)
DICTIONARY_ROWS(64, u64)

// Renumbers the buffers of views when arrays are concatenated. The buffer index of each view of more than 12 bytes
// grows by the number of buffers of earlier arrays: array `p` has rows `firsts[p] ..`, and its buffers follow
// `buffers[p]` others. Bound: a sector read a row, and one written for a long value. Launch: blocks of 256, one row a
// thread.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_number_buffers(uint4* __restrict__ views, const u32* __restrict__ firsts, const u32* __restrict__ buffers, u32 parts,
                        u32 n) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n && views[i].x > 12) {
        const u32 part = partition_point(0, parts, [&](u32 p) { return firsts[p] <= i; }) - 1;
        views[i].z += buffers[part];
    }
}

// Offsets of one part of a concatenated column: its own offsets plus `base`, where its bytes begin. Bound: 8 bytes a
// row. Launch: blocks of 256, a block for each 1024 offsets.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_place_offsets(const u32* __restrict__ in, u32 n, u32 base, u32* __restrict__ out) {
    each_row(n, [=](u32 i) { return in[i]; }, [=](u32 i, u32 offset) { out[i] = offset + base; });
}
