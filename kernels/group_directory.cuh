// Which group a key belongs to: an open-addressing table in global memory that numbers keys as they come, 0, 1, …
//
// A key takes the first empty slot from its home on, then its number; until that is known it is PENDING, and whoever looks for
// the same key waits. Keys never leave and numbers never change, so the first look at a home may be out of date (from the
// first-level cache): what it does not know yet, the atomics and volatile looks that follow tell.
#pragma once

#include "group_hash.cuh"

// Words of `state`, all 0 before the first launch: how many groups there are; whether there were more than `limit`, when
// all results are void and a larger table is needed; and, from CLAIMS on, how far the rows are dealt out, for each team.
constexpr u32 GROUPS = 0;
constexpr u32 FULL = 32;
constexpr u32 CLAIMS = 64;
constexpr u32 MAX_TEAMS = 32;

struct Directory {
    // All bits set before the first launch. u32 keys: `slots` of 8 bytes; u64 keys and tuples: `slots + 1` of 16.
    void* entries;
    // By group: its key; for tuples the row of one of its members.
    void* keys;
    u32* state;
    // Twice `limit` or more.
    u32 slots;
    u32 limit;
};

// Numbers of groups that are none.
constexpr u32 UNNUMBERED = 0xFFFFFFFFu;
constexpr u32 PENDING = 0xFFFFFFFEu;
constexpr u32 OVER = 0xFFFFFFFDu;

// What lies there now. A volatile access, since compilers may take repeated loads by __ldcv for one: they made the loops below
// that wait for a number end without it.
template <typename Word>
__device__ __forceinline__ Word look_now(const Word* at) {
    return *static_cast<const volatile Word*>(at);
}

__device__ __forceinline__ bool is_full(const Directory& directory) {
    return look_now(directory.state + FULL) != 0;
}

// The next number, and the key at its place. Lanes that come together take theirs with one atomic.
template <typename Key>
__device__ __forceinline__ u32 number_key(const Directory& directory, Key key) {
    const u32 together = __activemask();
    const u32 leader = __ffs(together) - 1;
    const u32 lane = threadIdx.x % WARP;
    u32 first = 0;
    if (lane == leader) {
        first = atomicAdd(directory.state + GROUPS, __popc(together));
    }
    first = __shfl_sync(together, first, leader);
    const u32 number = first + __popc(together & ((1u << lane) - 1));
    if (number >= directory.limit) {
        __stcg(directory.state + FULL, 1u);
        return OVER;
    }
    static_cast<Key*>(directory.keys)[number] = key;
    return number;
}

__device__ __forceinline__ u32 group_or_none(u32 number) {
    return number == OVER ? NO_GROUP : number;
}

// Keys of 32 bits: a slot is the key and, below it, its number. Of the key with all bits set no number is UNNUMBERED, so that
// it differs from an empty slot.
struct Slots32 {
    using Key = u32;
    using Entry = u64;
    static constexpr u64 EMPTY = ~0ull;

    static __device__ __forceinline__ u32 home(const Directory& directory, u32, u32 hash) {
        return home_of(hash, directory.slots);
    }

    static __device__ __forceinline__ Entry peek(const Directory& directory, u32 slot) {
        return __ldca(static_cast<const u64*>(directory.entries) + slot);
    }

    // The key's group where this entry says it, else UNNUMBERED.
    static __device__ __forceinline__ u32 number_in(Entry entry, u32 key) {
        return (u32)(entry >> 32) == key && (u32)entry < OVER ? (u32)entry : UNNUMBERED;
    }

    // The key's group, a new one if need be, or NO_GROUP when there are too many.
    static __device__ __noinline__ u32 group_of(const Directory directory, u32 key, u32 hash) {
        u64* const entries = static_cast<u64*>(directory.entries);
        u32 slot = home_of(hash, directory.slots);
        for (u32 probes = 0; probes < directory.slots; probes++) {
            u64 entry = __ldcg(entries + slot);
            if (entry == EMPTY) {
                if (is_full(directory)) {
                    return NO_GROUP;
                }
                entry = atomicCAS(entries + slot, EMPTY, (u64)key << 32 | PENDING);
                if (entry == EMPTY) {
                    const u32 number = number_key(directory, key);
                    __stcg(entries + slot, (u64)key << 32 | number);
                    return group_or_none(number);
                }
            }
            if ((u32)(entry >> 32) == key) {
                while ((u32)entry == PENDING) {
                    entry = look_now(entries + slot);
                }
                return group_or_none((u32)entry);
            }
            slot = slot + 1 < directory.slots ? slot + 1 : 0;
        }
        return NO_GROUP;
    }

    // The key's group if it has one; no launch adds any meanwhile.
    static __device__ __forceinline__ u32 find(const Directory& directory, u32 key, u32 hash) {
        u32 slot = home_of(hash, directory.slots);
        for (u32 probes = 0; probes < directory.slots; probes++) {
            const u64 entry = peek(directory, slot);
            if (entry == EMPTY) {
                return NO_GROUP;
            }
            if ((u32)(entry >> 32) == key) {
                return (u32)entry;
            }
            slot = slot + 1 < directory.slots ? slot + 1 : 0;
        }
        return NO_GROUP;
    }
};

struct alignas(16) Slot64 {
    u64 key;
    u32 number;
    u32 unused;
};

__device__ __forceinline__ u32 wait_for_number(const Slot64* slot) {
    u32 number = PENDING;
    while (number >= PENDING) {
        number = look_now(&slot->number);
    }
    return number;
}

// Keys of 64 bits beside their numbers. The key that looks like an empty slot has one of its own, the last.
struct Slots64 {
    using Key = u64;
    using Entry = ulonglong2;
    static constexpr u64 EMPTY = ~0ull;

    static __device__ __forceinline__ u32 home(const Directory& directory, u64 key, u32 hash) {
        return key == EMPTY ? directory.slots : home_of(hash, directory.slots);
    }

    static __device__ __forceinline__ Entry peek(const Directory& directory, u32 slot) {
        return __ldca(static_cast<const ulonglong2*>(directory.entries) + slot);
    }

    static __device__ __forceinline__ u32 number_in(Entry entry, u64 key) {
        return entry.x == key && (u32)entry.y < OVER ? (u32)entry.y : UNNUMBERED;
    }

    static __device__ __forceinline__ u32 take(const Directory& directory, Slot64* slot, u64 key) {
        const u32 number = number_key(directory, key);
        __stcg(&slot->number, number);
        return group_or_none(number);
    }

    static __device__ __noinline__ u32 group_of(const Directory directory, u64 key, u32 hash) {
        Slot64* const entries = static_cast<Slot64*>(directory.entries);
        if (key == EMPTY) {
            Slot64* const last = entries + directory.slots;
            if (atomicCAS(&last->number, UNNUMBERED, PENDING) == UNNUMBERED) {
                return take(directory, last, key);
            }
            return group_or_none(wait_for_number(last));
        }
        u32 slot = home_of(hash, directory.slots);
        for (u32 probes = 0; probes < directory.slots; probes++) {
            u64 found = __ldcg(&entries[slot].key);
            if (found == EMPTY) {
                if (is_full(directory)) {
                    return NO_GROUP;
                }
                found = atomicCAS(&entries[slot].key, EMPTY, key);
                if (found == EMPTY) {
                    return take(directory, entries + slot, key);
                }
            }
            if (found == key) {
                return group_or_none(wait_for_number(entries + slot));
            }
            slot = slot + 1 < directory.slots ? slot + 1 : 0;
        }
        return NO_GROUP;
    }

    static __device__ __forceinline__ u32 find(const Directory& directory, u64 key, u32 hash) {
        u32 slot = home(directory, key, hash);
        for (u32 probes = 0; probes < directory.slots; probes++) {
            const Entry entry = peek(directory, slot);
            if (entry.x == key) {
                return (u32)entry.y == UNNUMBERED ? NO_GROUP : (u32)entry.y;
            }
            if (entry.x == EMPTY) {
                return NO_GROUP;
            }
            slot = slot + 1 < directory.slots ? slot + 1 : 0;
        }
        return NO_GROUP;
    }
};
