// Grouped aggregation of partitioned rows (PGB, [W] 4.3): a block for each partition at a time, with a table of its keys in shared memory. All keys of
// the partition are inserted first. Then the number of its groups is known, which get their numbers by one atomic. Rows are added
//
// - to accumulators in shared memory, one for each lane of a warp, if the groups are so few that lanes would contend ([W]'s case of one group);
// - to one accumulator in shared memory for each group;
// - to the results themselves, if shared memory does not hold the accumulators of all groups.
//
// No other partition has these keys, so there is no table behind. Keys are mixed ones (equi_hash.cuh), by whose highest bits rows are partitioned, and
// slots are chosen by the lowest. Prepared keys may share a slot: after MOST_PROBES of them the table counts as full.
#include "aggregate/block/group_block.cuh"
#include "equi/equi_hash.cuh"

constexpr u32 PART_THREADS = 512;
constexpr u32 PART_BLOCKS = 2;
// Far more than a key without intent meets where a third of the slots is free.
constexpr u32 MOST_PROBES = 512;

// The partitions, the groups, and the sizes of a block's table.
struct Parts {
    // The first row of each partition, and the end.
    const u32* starts;
    // By group: its key.
    void* keys;
    // As of a directory: clear.
    u32* state;
    // Of a partition's number.
    u32 bits;
    // Groups that there is room for.
    u32 limit;
    // Of the table, a power of two; and accumulators, without the waste.
    u32 slots, plain;
};

template <typename Key>
struct PartKeys {
    Key* keys;
    // By slot: the number of its group in the partition.
    u16* numbers;
    u32 mask;
    // A key of another partition.
    Key empty;

    // Inserts a key. Returns false if it finds no slot.
    __device__ __forceinline__ bool insert(Key key) const {
        u32 at = u32(key) & mask;
        for (u32 probes = 0; probes < MOST_PROBES; probes++) {
            Key found = look_now(keys + at);
            if (found == empty) {
                found = atomicCAS(keys + at, empty, key);
            }
            if (found == key || found == empty) {
                return true;
            }
            at = (at + 1) & mask;
        }
        return false;
    }

    // The first slots of keys, all of which are read before any is used.
    __device__ __forceinline__ void read_homes(const Key (&key)[ROWS], Key (&found)[ROWS]) const {
#pragma unroll
        for (u32 k = 0; k < ROWS; k++) {
            found[k] = keys[u32(key[k]) & mask];
        }
    }

    // The slot of a key that was inserted, whose first slot has `found`.
    __device__ __forceinline__ u32 find(Key key, Key found) const {
        u32 at = u32(key) & mask;
        while (found != key) {
            at = (at + 1) & mask;
            found = keys[at];
        }
        return at;
    }
};

// What the threads of a block share about its partition.
struct PartState {
    u32 part;
    u32 groups;
    u32 base;
    u32 is_over;
};

template <typename Key>
__device__ __forceinline__ void aggregate_parts(const Key* keys, const Parts& parts, const Accumulators& accumulators) {
    __shared__ PartState shared;
    const u32 places = parts.plain + WARP;
    const u32 lane = threadIdx.x % WARP;
    u32 words = 0;
    for (u32 a = 0; a < accumulators.count; a++) {
        words += words_of(accumulators.of[a].update);
    }
    // Words of 64 bits are aligned, as there are whole warps of places.
    Key* const of_table = reinterpret_cast<Key*>(reinterpret_cast<u32*>(group_shared) + words * places);
    PartKeys<Key> table = {of_table, reinterpret_cast<u16*>(of_table + parts.slots), parts.slots - 1, 0};
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            shared.part = atomicAdd(parts.state + CLAIMS, 1u);
            shared.groups = 0;
            shared.is_over = look_now(parts.state + FULL);
        }
        __syncthreads();
        const u32 part = shared.part;
        if (part >= 1u << parts.bits || shared.is_over != 0) {
            return;
        }
        const u32 begin = __ldg(parts.starts + part), end = __ldg(parts.starts + part + 1);
        if (begin == end) {
            continue;
        }
        table.empty = Key(part ^ 1) << (8 * sizeof(Key) - parts.bits);
        for (u32 i = threadIdx.x; i < parts.slots; i += PART_THREADS) {
            table.keys[i] = table.empty;
        }
        __syncthreads();

        for (u32 first = begin; first < end && look_now(&shared.is_over) == 0; first += ROWS * PART_THREADS) {
            Key key[ROWS];
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                key[k] = __ldg(keys + min(first + k * PART_THREADS + threadIdx.x, end - 1));
            }
            Key found[ROWS];
            table.read_homes(key, found);
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                if (found[k] != key[k] && !table.insert(key[k])) {
                    shared.is_over = 1;
                    break;
                }
            }
        }
        __syncthreads();
        if (shared.is_over != 0) {
            if (threadIdx.x == 0) {
                __stcg(parts.state + FULL, 1u);
            }
            return;
        }

        for (u32 i = threadIdx.x; i < parts.slots; i += PART_THREADS) {
            const u32 taken = __ballot_sync(ALL_LANES, table.keys[i] != table.empty);
            u32 before = 0;
            if (lane == 0 && taken != 0) {
                before = atomicAdd(&shared.groups, u32(__popc(taken)));
            }
            before = __shfl_sync(ALL_LANES, before, 0);
            table.numbers[i] = u16(before + __popc(taken & ((1u << lane) - 1)));
        }
        __syncthreads();
        const u32 groups = shared.groups;
        if (threadIdx.x == 0) {
            shared.base = atomicAdd(parts.state + GROUPS, groups);
            if (shared.base + groups > parts.limit) {
                __stcg(parts.state + FULL, 1u);
                shared.is_over = 1;
            }
        }
        __syncthreads();
        if (shared.is_over != 0) {
            return;
        }
        const u32 base = shared.base;
        for (u32 i = threadIdx.x; i < parts.slots; i += PART_THREADS) {
            if (table.keys[i] != table.empty) {
                static_cast<Key*>(parts.keys)[base + table.numbers[i]] = unmix(table.keys[i]);
            }
        }
        if (accumulators.count == 0) {
            continue;
        }
        const bool by_lane = groups * WARP <= parts.plain;
        const bool is_inside = groups <= parts.plain;
        if (is_inside) {
            clear_places(accumulators, places);
        }
        __syncthreads();

        for (u32 first = begin + threadIdx.x / WARP * WARP_ROWS; first < end; first += PART_THREADS / WARP * WARP_ROWS) {
            Rows rows;
            rows.first = first + lane;
            Key key[ROWS];
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                key[k] = __ldg(keys + min(rows.row(k), end - 1));
            }
            Key found[ROWS];
            table.read_homes(key, found);
#pragma unroll
            for (u32 k = 0; k < ROWS; k++) {
                const u32 number = table.numbers[table.find(key[k], found[k])];
                const u32 place = by_lane ? number * WARP + lane : is_inside ? number : (base + number) | IN_GLOBAL;
                rows.place[k] = rows.row(k) < end ? place : NOWHERE;
            }
            accumulate(accumulators, places, rows, [](u32) { return 0u; });
        }
        __syncthreads();
        if (by_lane) {
            for (u32 group = threadIdx.x / WARP; group < groups; group += PART_THREADS / WARP) {
                flush_hot(accumulators, places, group, base + group);
            }
        } else if (is_inside) {
            for (u32 group = threadIdx.x; group < groups; group += PART_THREADS) {
                flush_plain(accumulators, places, group, base + group);
            }
        }
    }
}

// Aggregates the rows of partitioned mixed keys. FULL is set if a partition has more groups than slots, or there are more groups than `limit`: then all
// results are invalid. Accumulates as group_table, whose initial state of results it needs.
// Bound: keys read twice, the second time mostly from L2, and values once; a row costs two searches among the slots and one or two atomics of 32 bits in
// shared memory; a group an atomic for each accumulator.
// Launch: blocks of 512, as many as are resident. Dynamic shared memory: 4 bytes for each word of `plain` and 32 places, and `slots` keys and u16; `plain`
// is a multiple of 32.
extern "C" __global__ void __launch_bounds__(PART_THREADS, PART_BLOCKS)
    group_part_table_u32(const u32* keys, const Parts parts, const __grid_constant__ Accumulators accumulators) {
    aggregate_parts<u32>(keys, parts, accumulators);
}

extern "C" __global__ void __launch_bounds__(PART_THREADS, PART_BLOCKS)
    group_part_table_u64(const u64* keys, const Parts parts, const __grid_constant__ Accumulators accumulators) {
    aggregate_parts<u64>(keys, parts, accumulators);
}
