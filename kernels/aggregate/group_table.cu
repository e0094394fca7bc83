// Grouped aggregation by hashed keys, in one read of the rows (a variant of HGB, [W] 4.2: without ids, keys and
// accumulators in one table): a table of keys in each block's shared memory, and behind it the directory and the
// accumulators of all groups in global memory.
//
// A key's home is one hot slot; if another key has it, a window of two pairs of plain slots; if these are occupied,
// global memory. The first keys get the slots. Frequent keys come early, so they get the hot slots without statistics.
#include "aggregate/group_table.cuh"

template <typename Slots>
__device__ __forceinline__ void aggregate(const typename Slots::Key* keys, const u32* kept, u32 n,
                                          const Directory& directory, const Accumulators& accumulators, Shape shape,
                                          u32 teams) {
    using Key = typename Slots::Key;
    Key* const behind = reinterpret_cast<Key*>(clear_places(accumulators, shape.places()));
    const Table<Slots> table{shape, behind + shape.plain_slots, behind,
                             reinterpret_cast<u32*>(behind + shape.hot_slots + shape.plain_slots), directory};
    for (u32 i = threadIdx.x; i < shape.hot_slots + shape.plain_slots; i += blockDim.x) {
        behind[i] = Table<Slots>::EMPTY;
    }
    if (threadIdx.x == 0) {
        *table.odd = 0;
    }
    __syncthreads();
    const u32 team = blockIdx.x % teams;
    // Rows that are partitioned by keys have no slots.
    const u32 claim_rows = shape.hot_slots + shape.plain_slots == 0 ? CLAIM_ROWS_PARTITIONED : CLAIM_ROWS;
    const auto add = [&](u32 row, u32 end) {
        Key key[ROWS];
        u32 hash[ROWS];
        Rows rows;
        rows.first = row;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            key[k] = __ldg(keys + min(rows.row(k), end - 1));
            rows.place[k] = rows.row(k) < end ? UNKNOWN : NOWHERE;
        }
        if (kept != nullptr) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                rows.place[k] = rows.row(k) < end && bit_at(kept, rows.row(k)) ? UNKNOWN : NOWHERE;
            }
        }
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            hash[k] = hash_of(key[k], directory.seed);
        }
        if (teams == 1) {
            fetch_next(accumulators, keys, row, end);
        } else {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                rows.place[k] = team_of(hash[k], teams) == team ? rows.place[k] : NOWHERE;
            }
        }
        table.find_places(key, hash, rows.place);
        table.find_elsewhere(key, hash, rows.place);
        accumulate(accumulators, shape.places(), rows, [](u32) { return 0u; });
    };
    each_claim(directory.state + CLAIMS + team, directory.state + FULL, n, add, claim_rows);
    __syncthreads();
    table.flush(accumulators);
}

// Accumulates the rows by key. `kept` says which rows count (null: all rows). Strategies are shapes: plain slots for
// twice or four times the groups (hash_shared); no plain slots, for more groups (global: hot keys stay in shared
// memory, which is the pre-aggregation that skew needs); several teams, for numbers of groups in between. DEVIATION has
// no centers here.
// Bound: keys (once a team) and values read once; in shared memory a row costs two reads of keys and one or two atomics
// of 32 bits, about 25 cycles for 32 rows of one SUM; in global memory a sector read at random and an atomic.
// Launch: blocks of up to 1024, a multiple of 32; a multiple of `teams` blocks, as many as are resident. Dynamic shared
// memory: 4 bytes for each word of each place, (hot_slots + plain_slots) keys, 4 bytes. hot_slots is 0 or a power of
// two, plain_slots a multiple of 4. The initial state of the directory and of the results is described with them.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS, 1)
    group_table_u32(const u32* keys, const u32* kept, u32 n, const Directory directory,
                    const __grid_constant__ Accumulators accumulators, u32 hot_slots, u32 plain_slots, u32 teams) {
    aggregate<Slots32>(keys, kept, n, directory, accumulators, {hot_slots, plain_slots}, teams);
}

extern "C" __global__ void __launch_bounds__(GROUP_THREADS, 1)
    group_table_u64(const u64* keys, const u32* kept, u32 n, const Directory directory,
                    const __grid_constant__ Accumulators accumulators, u32 hot_slots, u32 plain_slots, u32 teams) {
    aggregate<Slots64>(keys, kept, n, directory, accumulators, {hot_slots, plain_slots}, teams);
}
