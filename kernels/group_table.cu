// Grouped aggregation by hashed keys, in one read of the rows ([W] 3.2.1 and 4.2, HGB, but without ids before): a table of keys
// in each block's shared memory, and behind it the directory and the accumulators of all groups in global memory.
//
// A key's home is one hot slot; where another key has it, a window of plain slots; where these are taken, global memory. Slots
// go to the keys that come first, and frequent keys come early: they get the hot slots without being told.
#include "group_block.cuh"

// A key that is in none of the plain slots of its window, all of them taken, is not in the block's table.
constexpr u32 WINDOW = 4;

// Hot slots are a power of two; one more is for the key that looks like an empty slot. Plain slots are none, or any even number
// from WINDOW on: the last home has a whole window.
struct Shape {
    u32 hot_slots, plain_slots;

    __device__ __forceinline__ u32 first_plain() const { return (hot_slots + 1) * WARP; }
    __device__ __forceinline__ u32 places() const { return first_plain() + plain_slots + WARP; }
};

// While places are looked for. Both are above any place and below IN_GLOBAL.
constexpr u32 UNKNOWN = IN_GLOBAL - 1;
constexpr u32 ABSENT = IN_GLOBAL - 2;

template <typename Slots>
struct Table {
    using Key = typename Slots::Key;
    static constexpr Key EMPTY = (Key)~0ull;

    Shape shape;
    Key* hot;
    Key* plain;
    // Whether the key EMPTY came.
    u32* odd;
    Directory directory;

    __device__ __forceinline__ u32 hot_of(u32 hash) const { return hash & (shape.hot_slots - 1); }

    __device__ __forceinline__ u32 plain_of(u32 hash) const { return home_of(hash, shape.plain_slots - (WINDOW - 1)); }

    // Makes a place for a key that was in none, if there is room for it; a key that another thread brings at the same time
    // finds the same.
    __device__ __forceinline__ u32 claim(Key key, u32 hash) const {
        Key found = atomicCAS(hot + hot_of(hash), EMPTY, key);
        if (found == EMPTY || found == key) {
            return hot_of(hash) * WARP + threadIdx.x % WARP;
        }
        if (shape.plain_slots != 0) {
            for (u32 slot = plain_of(hash); slot < plain_of(hash) + WINDOW; slot++) {
                found = atomicCAS(plain + slot, EMPTY, key);
                if (found == EMPTY || found == key) {
                    return shape.first_plain() + slot;
                }
            }
        }
        return UNKNOWN;
    }

    // Where a row goes that found `found` in a slot with place `there`.
    static __device__ __forceinline__ u32 settle(Key found, Key key, u32 there) {
        return found == key ? there : found == EMPTY ? ABSENT : UNKNOWN;
    }

    // Where the rows go whose place is UNKNOWN. What all rows of a thread need is asked for before any is waited for.
    __device__ __forceinline__ void find_places(const Key (&key)[ROWS], const u32 (&hash)[ROWS], u32 (&place)[ROWS]) const {
        const u32 lane = threadIdx.x % WARP;
        Key found[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            found[k] = hot[hot_of(hash[k])];
        }
        bool is_odd = false;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 settled = settle(found[k], key[k], hot_of(hash[k]) * WARP + lane);
            place[k] = place[k] == NOWHERE ? NOWHERE : settled;
            is_odd = is_odd || key[k] == EMPTY;
        }
        if (is_odd) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (key[k] == EMPTY && place[k] != NOWHERE) {
                    place[k] = shape.hot_slots * WARP + lane;
                    *odd = 1;
                }
            }
        }
        if (shape.plain_slots == 0) {
            return;
        }
#pragma unroll 1
        for (u32 probe = 0; probe < WINDOW; probe++) {
            bool unknown = false;
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                unknown = unknown || place[k] == UNKNOWN;
            }
            if (!__any_sync(ALL_LANES, unknown)) {
                return;
            }
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (place[k] == UNKNOWN) {
                    found[k] = plain[plain_of(hash[k]) + probe];
                }
            }
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                const u32 settled = settle(found[k], key[k], shape.first_plain() + plain_of(hash[k]) + probe);
                place[k] = place[k] == UNKNOWN ? settled : place[k];
            }
        }
    }

    // Keys that are new here, and those for which there is no room.
    __device__ __forceinline__ void find_elsewhere(const Key (&key)[ROWS], const u32 (&hash)[ROWS], u32 (&place)[ROWS]) const {
        bool elsewhere = false;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            elsewhere = elsewhere || place[k] == UNKNOWN || place[k] == ABSENT;
        }
        if (elsewhere) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (place[k] == ABSENT) {
                    place[k] = claim(key[k], hash[k]);
                }
            }
            groups_of(key, hash, place);
        }
    }

    __device__ __forceinline__ void groups_of(const Key (&key)[ROWS], const u32 (&hash)[ROWS], u32 (&place)[ROWS]) const {
        typename Slots::Entry entry[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (place[k] == UNKNOWN) {
                entry[k] = Slots::peek(directory, Slots::home(directory, key[k], hash[k]));
            }
        }
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (place[k] == UNKNOWN) {
                u32 group = Slots::number_in(entry[k], key[k]);
                if (group == UNNUMBERED) {
                    group = Slots::group_of(directory, key[k], hash[k]);
                }
                place[k] = group == NO_GROUP ? NOWHERE : group | IN_GLOBAL;
            }
        }
    }

    // Hands everything over to the groups: first the hot keys, a warp each, then the plain ones, a thread each.
    __device__ __forceinline__ void flush(const Accumulators& accumulators) const {
        for (u32 h = threadIdx.x / WARP; h <= shape.hot_slots; h += blockDim.x / WARP) {
            const Key key = h < shape.hot_slots ? hot[h] : EMPTY;
            if (h < shape.hot_slots ? key == EMPTY : *odd == 0) {
                continue;
            }
            u32 group = 0;
            if (threadIdx.x % WARP == 0) {
                group = Slots::group_of(directory, key, hash_of(key));
            }
            group = __shfl_sync(ALL_LANES, group, 0);
            if (group != NO_GROUP) {
                flush_hot(accumulators, shape.places(), h, group);
            }
        }
        for (u32 p = threadIdx.x; p < shape.plain_slots; p += blockDim.x) {
            const Key key = plain[p];
            const u32 group = key == EMPTY ? NO_GROUP : Slots::group_of(directory, key, hash_of(key));
            if (group != NO_GROUP) {
                flush_plain(accumulators, shape.places(), shape.first_plain() + p, group);
            }
        }
    }
};

template <typename Slots>
__device__ __forceinline__ void aggregate(const typename Slots::Key* keys, const u32* kept, u32 n,
                                          const Directory& directory, const Accumulators& accumulators, Shape shape,
                                          u32 teams) {
    using Key = typename Slots::Key;
    Key* const behind = reinterpret_cast<Key*>(clear_places(accumulators, shape.places()));
    const Table<Slots> table{shape, behind, behind + shape.hot_slots,
                             reinterpret_cast<u32*>(behind + shape.hot_slots + shape.plain_slots), directory};
    for (u32 i = threadIdx.x; i < shape.hot_slots + shape.plain_slots; i += blockDim.x) {
        behind[i] = Table<Slots>::EMPTY;
    }
    if (threadIdx.x == 0) {
        *table.odd = 0;
    }
    __syncthreads();
    const u32 team = blockIdx.x % teams;
    each_claim(directory.state + CLAIMS + team, directory.state + FULL, n, [&](u32 row, u32 end) {
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
            hash[k] = hash_of(key[k]);
        }
        if (teams != 1) {
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                rows.place[k] = team_of(hash[k], teams) == team ? rows.place[k] : NOWHERE;
            }
        }
        table.find_places(key, hash, rows.place);
        table.find_elsewhere(key, hash, rows.place);
        accumulate(accumulators, shape.places(), rows, [](u32) { return 0u; });
    });
    __syncthreads();
    table.flush(accumulators);
}

// Accumulates the rows by key. `kept` says which rows count (null: all). Strategies are shapes: plain slots for twice or four
// times the groups (HGB); no plain slots, for groups beyond that (global: hot keys stay in shared memory, which is the
// pre-aggregation that skew needs); several teams, for groups in between. DEVIATION takes no centers here.
// Bound: keys (once a team) and values read once; in shared memory a row costs two reads of keys and one or two atomics of
// 32 bits, about 25 cycles for 32 rows of one SUM; in global memory a sector read at random and an atomic.
// Launch: blocks of up to 1024, a multiple of 32; a multiple of `teams` blocks, as many as fit at once. Dynamic shared memory:
// 4 bytes a word of each place, (hot_slots + plain_slots) keys, 4 bytes. hot_slots is a power of two, 1 at least, plain_slots
// 0 or even and 4 at least. The directory, its state and the results are prepared as described with them.
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
