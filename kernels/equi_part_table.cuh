// A hash table of one partition's build keys in shared memory, and the block that fills it and probes it.
#pragma once

#include "equi_emit.cuh"
#include "equi_part.cuh"

constexpr u32 JOIN_THREADS = 512;
constexpr u32 JOIN_WARPS = JOIN_THREADS / WARP;
// Probe rows of a thread: a piece of 4096 rows more or less is one step of a block, with all of its loads in flight.
constexpr u32 JOIN_ITEMS = 9;
constexpr u32 JOIN_ROWS = JOIN_THREADS * JOIN_ITEMS;

extern __shared__ uint4 join_memory[];

// Open addressing. A slot holds 16 bits of the mixed key above the place of the key among the `capacity` that the block has
// taken from the partition, so that a slot of another key costs one read. It is chosen by the lowest bits, of which the
// partition says nothing. In dynamic shared memory: slots, keys, and room for a value of 4 bytes for each key.
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

    __device__ __forceinline__ void clear() {
        uint4* const fours = reinterpret_cast<uint4*>(slots);
        for (u32 i = threadIdx.x; i <= mask / 4; i += JOIN_THREADS) {
            fours[i] = make_uint4(NONE, NONE, NONE, NONE);
        }
    }

    // Inserts keys[0 .. rows], fewer than there are slots. Whether this thread met a key that was there.
    __device__ __forceinline__ bool insert(u32 rows) {
        bool met = false;
        for (u32 r = threadIdx.x; r < rows; r += JOIN_THREADS) {
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

    __device__ __forceinline__ u32 first_slot(Key key) const { return slots[u32(key) & mask]; }

    // The place of `key`, whose first slot holds `slot`, or none.
    __device__ __forceinline__ u32 find(Key key, u32 slot) const {
        u32 at = u32(key) & mask;
        while (slot != NONE && !holds(slot, key)) {
            at = (at + 1) & mask;
            slot = slots[at];
        }
        return slot == NONE ? NONE : slot & 0xFFFFu;
    }
};

// One side in partitions: its mixed keys, and where partitions begin.
template <class Key>
struct Partitioned {
    const Key* keys;
    const u32* starts;
};

// The piece of one block, a probe row of it for each item of a thread.
template <class Key>
struct ProbePiece {
    Piece piece;
    Key keys[JOIN_ITEMS];

    __device__ __forceinline__ u32 place(u32 k) const { return k * JOIN_THREADS + threadIdx.x; }
    __device__ __forceinline__ u32 row(u32 k) const { return piece.first + place(k); }
    __device__ __forceinline__ bool has(u32 k) const { return place(k) < piece.rows; }

    __device__ __forceinline__ ProbePiece(const Piece& piece, const Key* probe_keys) : piece(piece) {
#pragma unroll
        for (u32 k = 0; k < JOIN_ITEMS; k++) {
            keys[k] = has(k) ? probe_keys[row(k)] : Key(0);
        }
    }

    // Puts the partition's build keys into the table, as many at a time as it takes, and calls `take(found, begin, rows)`
    // for each such chunk: found[k] is a place below `rows` in the build side from `begin` on, or none. `stage(begin, rows)`
    // loads what the chunk's keys are wanted with. Ends early where keys turned out not to be unique.
    template <typename Stage, typename Take>
    __device__ __forceinline__ void probe(const Partitioned<Key>& build, PartTable<Key>& table, u32 capacity, u32* status,
                                          Stage stage, Take take) const {
        const u32 end = build.starts[piece.partition + 1];
        for (u32 begin = build.starts[piece.partition]; begin < end; begin += capacity) {
            const u32 rows = min(capacity, end - begin);
            __syncthreads();
            table.clear();
#pragma unroll 4
            for (u32 r = threadIdx.x; r < rows; r += JOIN_THREADS) {
                table.keys[r] = build.keys[begin + r];
            }
            stage(begin, rows);
            const bool useless =
                threadIdx.x == 0 && (*static_cast<const volatile u32*>(status) & DUPLICATE_KEYS) != 0;
            if (__syncthreads_or(useless)) {
                return;
            }
            if (table.insert(rows)) {
                atomicOr(status, DUPLICATE_KEYS);
            }
            __syncthreads();
            u32 found[JOIN_ITEMS];
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                found[k] = has(k) ? table.first_slot(keys[k]) : NONE;
            }
#pragma unroll
            for (u32 k = 0; k < JOIN_ITEMS; k++) {
                found[k] = table.find(keys[k], found[k]);
            }
            take(found, begin, rows);
        }
    }
};
