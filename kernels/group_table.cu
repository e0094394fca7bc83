// Grouped aggregation by hashed keys, in one read of the rows ([W] 3.2.1 and 4.2, HGB, but without ids before): a table of keys
// in each block's shared memory, and behind it the directory and the accumulators of all groups in global memory.
//
// A key's home is one hot slot; where another key has it, a window of plain slots; where these are taken, global memory. Slots
// go to the keys that come first, and frequent keys come early: they get the hot slots without being told.
#include "group_block.cuh"

// Hot slots are a power of two; one more is for the key that looks like an empty slot. Plain slots are any even number.
struct Shape {
    u32 hot_slots, plain_slots;

    __device__ __forceinline__ u32 places() const { return (hot_slots + 1) * WARP + plain_slots; }
    __device__ __forceinline__ u32 first_plain() const { return (hot_slots + 1) * WARP; }
};

// A key that is in none of the plain slots of its window, all of them taken, is not in the block's table.
constexpr u32 WINDOW = 4;

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

    __device__ __forceinline__ u32 plain_of(u32 hash, u32 probe) const {
        const u32 slot = home_of(hash, shape.plain_slots) + probe;
        return slot < shape.plain_slots ? slot : slot - shape.plain_slots;
    }

    // Makes a place for a key that was in none, if there is room for it; a key that another thread brings at the same time
    // finds the same.
    __device__ __forceinline__ u32 claim(Key key, u32 hash) const {
        Key found = atomicCAS(hot + hot_of(hash), EMPTY, key);
        if (found == EMPTY || found == key) {
            return hot_of(hash) * WARP + threadIdx.x % WARP;
        }
        const u32 window = min(WINDOW, shape.plain_slots);
        for (u32 probe = 0; probe < window; probe++) {
            const u32 slot = plain_of(hash, probe);
            found = atomicCAS(plain + slot, EMPTY, key);
            if (found == EMPTY || found == key) {
                return shape.first_plain() + slot;
            }
        }
        return UNKNOWN;
    }

    // Where the rows go. What all of a warp's rows need is asked for before any is waited for.
    __device__ __forceinline__ void places_of(const Key (&key)[ROWS], const bool (&kept)[ROWS], u32 team, u32 teams,
                                              u32 (&place)[ROWS]) const {
        const u32 lane = threadIdx.x % WARP;
        u32 hash[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            hash[k] = hash_of(key[k]);
            place[k] = kept[k] && (teams == 1 || team_of(hash[k], teams) == team) ? UNKNOWN : NOWHERE;
            if (place[k] == UNKNOWN) {
                const Key found = hot[hot_of(hash[k])];
                if (key[k] == EMPTY) {
                    place[k] = shape.hot_slots * WARP + lane;
                    *odd = 1;
                } else if (found == key[k]) {
                    place[k] = hot_of(hash[k]) * WARP + lane;
                } else if (found == EMPTY) {
                    place[k] = ABSENT;
                }
            }
        }
        const u32 window = min(WINDOW, shape.plain_slots);
        bool unknown = true;
#pragma unroll 1
        for (u32 probe = 0; probe < window && __any_sync(ALL_LANES, unknown); probe++) {
            unknown = false;
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (place[k] == UNKNOWN) {
                    const u32 slot = plain_of(hash[k], probe);
                    const Key found = plain[slot];
                    if (found == key[k]) {
                        place[k] = shape.first_plain() + slot;
                    } else if (found == EMPTY) {
                        place[k] = ABSENT;
                    } else {
                        unknown = true;
                    }
                }
            }
        }
        bool outside = false;
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            if (place[k] == ABSENT) {
                place[k] = claim(key[k], hash[k]);
            }
            outside = outside || place[k] == UNKNOWN;
        }
        if (__any_sync(ALL_LANES, outside)) {
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
__device__ __forceinline__ void aggregate(const typename Slots::Key* keys, const u32* kept_bits, u32 n,
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
        bool kept[ROWS];
        u32 place[ROWS];
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            const u32 at = min(row + k * WARP, end - 1);
            key[k] = __ldg(keys + at);
            kept[k] = row + k * WARP < end && bit_at(kept_bits, at);
        }
        table.places_of(key, kept, team, teams, place);
        accumulate(accumulators, shape.places(), row, place, [](u32) { return 0u; });
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
// even. The directory, its state and the results are prepared as described with them.
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
