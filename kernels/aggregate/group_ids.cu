// Dense group ids of rows, in no particular order, by hashing.
#include "aggregate/group_ids.cuh"

// The loads of a row that are issued before any of them is used.
template <typename Slots>
struct Looked {
    typename Slots::Key key;
    typename Slots::Entry entry;
    bool kept;
};

template <typename Slots>
__device__ __forceinline__ Looked<Slots> look_up(const Directory& directory, const typename Slots::Key* keys,
                                                 const u32* kept, u32 i) {
    const typename Slots::Key key = __ldg(keys + i);
    return {key, Slots::peek(directory, Slots::home(directory, key, hash_of(key, directory.seed))), bit_at(kept, i)};
}

// Whole warps, as a warp numbers its new keys together; loads past the end read the last row instead.
template <typename Slots>
__device__ __forceinline__ void number(const typename Slots::Key* keys, const u32* kept, u32 n, const Directory& directory,
                                       u32* ids) {
    for (u32 tile = blockIdx.x; tile < (n + TILE - 1) / TILE; tile += gridDim.x) {
        const u32 first = warp_first(tile) + threadIdx.x % WARP;
        Looked<Slots> row[ITEMS];
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            row[k] = look_up<Slots>(directory, keys, kept, min(first + k * WARP, n - 1));
        }
        typename Slots::Key key[ITEMS];
        u32 hash[ITEMS], known[ITEMS], group[ITEMS];
        bool wanted[ITEMS];
        bool any = false;
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            key[k] = row[k].key;
            hash[k] = hash_of(key[k], directory.seed);
            known[k] = row[k].kept ? Slots::number_in(row[k].entry, key[k]) : NO_GROUP;
            wanted[k] = row[k].kept && known[k] == UNNUMBERED && first + k * WARP < n;
            any = any || wanted[k];
        }
        if (__any_sync(ALL_LANES, any)) {
            number_keys<Slots>(directory, key, hash, wanted, group);
#pragma unroll
            for (u32 k = 0; k < ITEMS; k++) {
                known[k] = wanted[k] ? group[k] : known[k];
            }
        }
#pragma unroll
        for (u32 k = 0; k < ITEMS; k++) {
            if (first + k * WARP < n) {
                ids[first + k * WARP] = known[k];
            }
        }
    }
}

// The group of each row's key, numbered in the order of arrival; NO_GROUP for rows that `kept` (null: all rows)
// excludes. Invalid if the state says FULL afterwards. Bound: the key and a slot at random read, 4 bytes written a row.
// Launch: blocks of 256, a grid of any size (8 blocks a multiprocessor).
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_ids_u32(const u32* __restrict__ keys, const u32* __restrict__ kept, u32 n, const Directory directory,
                  u32* __restrict__ ids) {
    number<Slots32>(keys, kept, n, directory, ids);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    group_ids_u64(const u64* __restrict__ keys, const u32* __restrict__ kept, u32 n, const Directory directory,
                  u32* __restrict__ ids) {
    number<Slots64>(keys, kept, n, directory, ids);
}

// The group of each row of tuples. The directory's keys are the row of one member of each group. Bound: the tuple read
// twice (the second time that of the member, at random), a slot at random and 4 bytes written a row. Launch: as above.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_ids_tuples(const u64* __restrict__ words, u32 width, const u32* __restrict__ kept, u32 n,
                     const Directory directory, u32* __restrict__ ids) {
    const Words tuples{words, n, width};
    for (u32 i = blockIdx.x * BLOCK + threadIdx.x; i / WARP * WARP < n; i += gridDim.x * BLOCK) {
        const u32 group = number_tuple(directory, tuples, i, i < n && bit_at(kept, i));
        if (i < n) {
            ids[i] = group;
        }
    }
}
