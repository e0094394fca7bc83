// Partitions rows by their ids, in no order within a partition, with all columns in one launch (values go along, as by
// GFTR: [W] 4.1.2). It serves aggregates that do not depend on which row came first; group_part keeps the order of rows
// and needs a launch for each column.
// For compute_80.
#include "shared/async_copy.cuh"
#include "equi/equi_columns.cuh"
#include "aggregate/group_spread.cuh"

constexpr u32 SPREAD_THREADS = 512;
constexpr u32 SPREAD_ITEMS = 16;
constexpr u32 SPREAD_ROWS = SPREAD_THREADS * SPREAD_ITEMS;
constexpr u32 LANE_PARTITIONS = PARTITIONS / WARP;

// A tile: the values of a column as in memory, its keys by partition, and the source position of each key in the tile.
struct SpreadTile {
    u64 values[SPREAD_ROWS];
    u32 keys[SPREAD_ROWS];
    u16 sources[SPREAD_ROWS];
};

extern __shared__ ulonglong2 spread_shared[];

template <u32 WIDTH>
__device__ __forceinline__ void begin_column(SpreadTile& tile, const void* column, u32 begin, u32 rows) {
    const char* const from = static_cast<const char*>(column) + (u64)begin * WIDTH;
    char* const to = reinterpret_cast<char*>(tile.values);
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS * WIDTH / COPY_BYTES; i++) {
        const u32 at = (threadIdx.x + i * SPREAD_THREADS) * COPY_BYTES;
        if (at < rows * WIDTH) {
            begin_copy(to + at, from + at, min(rows * WIDTH - at, COPY_BYTES));
        }
    }
}

__device__ __forceinline__ void begin_column(SpreadTile& tile, const Column& column, u32 begin, u32 rows) {
    if (column.width == 4) {
        begin_column<4>(tile, column.in, begin, rows);
    } else {
        begin_column<8>(tile, column.in, begin, rows);
    }
}

template <class Value>
__device__ __forceinline__ void write_column(const SpreadTile& tile, void* column, u32 rows, const u32 (&to)[SPREAD_ITEMS]) {
    const Value* const values = reinterpret_cast<const Value*>(tile.values);
    Value* const out = static_cast<Value*>(column);
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; i++) {
        const u32 at = threadIdx.x + i * SPREAD_THREADS;
        if (at < rows) {
            out[to[i]] = values[tile.sources[at]];
        }
    }
}

// Bound: keys and columns read and written once; a shared-memory atomic a row. Fewer partitions make longer runs: those
// of 64 partitions are written at 3.5 TB/s on an H200 that copies at 4.2, those of 256 at 2.8.
// Launch: blocks of 512, one for each SPREAD_ROWS rows; sizeof(SpreadTile) bytes of dynamic shared memory. Columns, if
// there are any, have values of 4 or 8 bytes and begin at multiples of 16. next[partition] is the beginning of the
// partition, and is advanced. Input and output must not overlap.
extern "C" __global__ void __launch_bounds__(SPREAD_THREADS, 2)
    group_spread(const u32* __restrict__ keys_in, u32 n, u32 first_key, u32 first_bit, u32* __restrict__ keys_out,
                 const Column* __restrict__ columns, u32 count, u32* next) {
    SpreadTile& tile = *reinterpret_cast<SpreadTile*>(spread_shared);
    // Rows of each partition in this tile; then the offset from a row's position in the tile to its position in the
    // output.
    __shared__ u32 counts[PARTITIONS];
    __shared__ u32 begins[PARTITIONS];
    const u32 begin = blockIdx.x * SPREAD_ROWS;
    const u32 rows = min(n - begin, SPREAD_ROWS);
    const PartitionOf partition_of{first_key, first_bit};
    if (threadIdx.x < PARTITIONS) {
        counts[threadIdx.x] = 0;
    }
    u32 keys[SPREAD_ITEMS];
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; i++) {
        const u32 at = threadIdx.x + i * SPREAD_THREADS;
        keys[i] = at < rows ? __ldcs(keys_in + begin + at) : 0;
    }
    if (count > 0) {
        begin_column(tile, columns[0], begin, rows);
    }
    __syncthreads();

    u32 ranks[SPREAD_ITEMS];
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; i++) {
        if (threadIdx.x + i * SPREAD_THREADS < rows) {
            ranks[i] = atomicAdd(&counts[partition_of(keys[i])], 1u);
        }
    }
    __syncthreads();
    if (threadIdx.x < WARP) {
        const u32 first = threadIdx.x * LANE_PARTITIONS;
        u32 mine = 0;
        u32 to[LANE_PARTITIONS];
#pragma unroll
        for (u32 p = 0; p < LANE_PARTITIONS; p++) {
            const u32 count = counts[first + p];
            to[p] = count > 0 ? atomicAdd(next + first + p, count) : 0;
            mine += count;
        }
        u32 through = mine;
#pragma unroll
        for (u32 distance = 1; distance < WARP; distance *= 2) {
            const u32 lower = __shfl_up_sync(ALL_LANES, through, distance);
            through += threadIdx.x >= distance ? lower : 0;
        }
        u32 before = through - mine;
#pragma unroll
        for (u32 p = 0; p < LANE_PARTITIONS; p++) {
            const u32 count = counts[first + p];
            begins[first + p] = before;
            counts[first + p] = to[p] - before;
            before += count;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; i++) {
        const u32 at = threadIdx.x + i * SPREAD_THREADS;
        if (at < rows) {
            const u32 place = begins[partition_of(keys[i])] + ranks[i];
            tile.keys[place] = keys[i];
            tile.sources[place] = (u16)at;
        }
    }
    end_copies();
    __syncthreads();
    u32 to[SPREAD_ITEMS];
#pragma unroll
    for (u32 i = 0; i < SPREAD_ITEMS; i++) {
        const u32 at = threadIdx.x + i * SPREAD_THREADS;
        if (at < rows) {
            const u32 key = tile.keys[at];
            to[i] = at + counts[partition_of(key)];
            keys_out[to[i]] = key;
        }
    }
#pragma unroll 1
    for (u32 c = 0; c < count; c++) {
        if (c > 0) {
            __syncthreads();
            begin_column(tile, columns[c], begin, rows);
            end_copies();
            __syncthreads();
        }
        if (columns[c].width == 4) {
            write_column<u32>(tile, columns[c].out, rows, to);
        } else {
            write_column<u64>(tile, columns[c].out, rows, to);
        }
    }
}
