// Tables of one partition's build keys in shared memory. `load` reads keys, `insert` builds the table, `place` is the
// position of a loaded row's values, and `find` the position of a key's values: below the number of rows, or NONE.
#pragma once

#include "equi/equi_emit.cuh"
#include "equi/partition/equi_part.cuh"

constexpr u32 JOIN_THREADS = 512;
constexpr u32 JOIN_BLOCKS = 2;
// Rows of a thread on the probe side, whose pieces are one step of a block with all loads in flight, and on the build
// side.
constexpr u32 JOIN_ITEMS = 9;
constexpr u32 JOIN_ROWS = JOIN_THREADS * JOIN_ITEMS;
constexpr u32 JOIN_BUILD_ITEMS = 5;

extern __shared__ uint4 join_memory[];

// The keys of this thread's build rows.
template <class Key>
struct BuildRows {
    Key keys[JOIN_BUILD_ITEMS];
    u32 rows;

    static __device__ __forceinline__ u32 at(u32 j) { return j * JOIN_THREADS + threadIdx.x; }
    __device__ __forceinline__ bool has(u32 j) const { return at(j) < rows; }

    __device__ __forceinline__ BuildRows(const Key* from, u32 rows) : rows(rows) {
#pragma unroll
        for (u32 j = 0; j < JOIN_BUILD_ITEMS; j++) {
            keys[j] = has(j) ? from[at(j)] : Key(0);
        }
    }
};

__device__ __forceinline__ void fill_shared(u32* words, u32 count, u32 value) {
    uint4* const fours = reinterpret_cast<uint4*>(words);
    for (u32 i = threadIdx.x; i < count / 4; i += JOIN_THREADS) {
        fours[i] = make_uint4(value, value, value, value);
    }
}

// Open addressing, for keys of any width and any number of partition bits. A slot has the key's position in the block's
// chunk of the partition in its low bits and 16 bits of the mixed key above, so that a mismatch costs one read. It is
// chosen by the lowest bits, which are independent of the partition. In shared memory: slots, then keys, then staged
// values.
template <class Key>
struct PartTable {
    u32* slots;
    Key* keys;
    u32* staged;
    u32 mask;

    __device__ __forceinline__ PartTable(u32 capacity, u32 slot_count)
        : slots(reinterpret_cast<u32*>(join_memory)),
          keys(reinterpret_cast<Key*>(slots + slot_count)),
          staged(reinterpret_cast<u32*>(keys + capacity)),
          mask(slot_count - 1) {}

    static __device__ __forceinline__ u32 tag(Key key) { return u32(key) >> 12 << 16; }

    __device__ __forceinline__ bool holds(u32 slot, Key key) const {
        return (slot ^ tag(key)) < 0x10000u && keys[slot & 0xFFFFu] == key;
    }

    // Returns whether this thread found a duplicate key. It overwrites the previous table, so a barrier must come
    // before it, and another one before the table is probed.
    __device__ __forceinline__ bool insert(const BuildRows<Key>& build) {
        fill_shared(slots, mask + 1, NONE);
#pragma unroll
        for (u32 j = 0; j < JOIN_BUILD_ITEMS; j++) {
            if (build.has(j)) {
                keys[build.at(j)] = build.keys[j];
            }
        }
        __syncthreads();
        bool met = false;
#pragma unroll 1
        for (u32 r = threadIdx.x; r < build.rows; r += JOIN_THREADS) {
            const Key key = keys[r];
            u32 at = u32(key) & mask;
            u32 old = atomicCAS(&slots[at], NONE, tag(key) | r);
            while (old != NONE && !holds(old, key)) {
                at = (at + 1) & mask;
                old = atomicCAS(&slots[at], NONE, tag(key) | r);
            }
            met = met || old != NONE;
        }
        return met;
    }

    __device__ __forceinline__ u32 place(const BuildRows<Key>& build, u32 j) const { return build.at(j); }

    __device__ __forceinline__ u32 find(Key key) const {
        u32 at = u32(key) & mask;
        u32 slot = slots[at];
        while (slot != NONE && !holds(slot, key)) {
            at = (at + 1) & mask;
            slot = slots[at];
        }
        return slot == NONE ? NONE : slot & 0xFFFFu;
    }
};

// For keys of 32 bits with 16 or a few more bits below the partition's: a bit for each possible key. A cell has 16 such
// bits in its low half and the number of keys in preceding cells above, so that the bits give a key's position: no
// collisions, no loop, one read of shared memory for each key, and no key is stored. In shared memory: cells, then
// staged values.
struct BitTable {
    u32* cells;
    u32* staged;
    u32 cell_count;
    u32* taken;

    static constexpr u32 CELL_BITS = 16;

    __device__ __forceinline__ BitTable(u32 cell_count, u32* taken)
        : cells(reinterpret_cast<u32*>(join_memory)), staged(cells + cell_count), cell_count(cell_count), taken(taken) {}

    __device__ __forceinline__ u32& cell(u32 key) const { return cells[key / CELL_BITS & (cell_count - 1)]; }

    static __device__ __forceinline__ u32 bit_of(const BuildRows<u32>& build, u32 j) {
        return build.has(j) ? 1u << build.keys[j] % CELL_BITS : 0;
    }

    __device__ __forceinline__ bool insert(const BuildRows<u32>& build) {
        fill_shared(cells, cell_count, 0);
        if (threadIdx.x == 0) {
            *taken = 0;
        }
        __syncthreads();
        // No branches, so that all atomics are in flight together: items without a row set no bit of any cell.
        u32 old[JOIN_BUILD_ITEMS];
#pragma unroll
        for (u32 j = 0; j < JOIN_BUILD_ITEMS; j++) {
            const u32 key = build.has(j) ? build.keys[j] : threadIdx.x * CELL_BITS;
            old[j] = atomicOr(&cell(key), bit_of(build, j)) & bit_of(build, j);
        }
        bool met = false;
#pragma unroll
        for (u32 j = 0; j < JOIN_BUILD_ITEMS; j++) {
            met = met || old[j] != 0;
        }
        __syncthreads();
        number_cells();
        return met;
    }

    // A warp numbers the keys of 128 cells at a time. The order of the warps does not matter.
    __device__ __forceinline__ void number_cells() {
        const u32 lane = threadIdx.x % WARP;
        uint4* const fours = reinterpret_cast<uint4*>(cells);
        for (u32 i = threadIdx.x; i < cell_count / 4; i += JOIN_THREADS) {
            uint4 four = fours[i];
            const u32 counts[4] = {u32(__popc(four.x)), u32(__popc(four.y)), u32(__popc(four.z)), u32(__popc(four.w))};
            const u32 mine = counts[0] + counts[1] + counts[2] + counts[3];
            u32 through = mine;
#pragma unroll
            for (u32 distance = 1; distance < WARP; distance *= 2) {
                const u32 lower = __shfl_up_sync(ALL_LANES, through, distance);
                through += lane >= distance ? lower : 0;
            }
            u32 before = lane == WARP - 1 ? atomicAdd(taken, through) : 0;
            before = __shfl_sync(ALL_LANES, before, WARP - 1) + through - mine;
            four.x |= before << CELL_BITS;
            four.y |= (before + counts[0]) << CELL_BITS;
            four.z |= (before + counts[0] + counts[1]) << CELL_BITS;
            four.w |= (before + counts[0] + counts[1] + counts[2]) << CELL_BITS;
            fours[i] = four;
        }
    }

    __device__ __forceinline__ u32 place(const BuildRows<u32>& build, u32 j) const {
        const u32 key = build.keys[j];
        const u32 word = cell(key);
        return (word >> CELL_BITS) + __popc(word & ((1u << key % CELL_BITS) - 1));
    }

    __device__ __forceinline__ u32 find(u32 key) const {
        const u32 word = cell(key);
        const u32 bit = 1u << key % CELL_BITS;
        return (word & bit) != 0 ? (word >> CELL_BITS) + __popc(word & (bit - 1)) : NONE;
    }
};
