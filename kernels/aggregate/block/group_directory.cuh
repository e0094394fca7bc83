// The group of a key: an open-addressing table in global memory that numbers keys in the order of arrival, 0, 1, …
//
// A key is inserted into the first empty slot from its home on; then the warp numbers its new keys by one atomic, and
// only after that waits for numbers that other warps have not published yet. No warp waits while a key of its own is
// unnumbered, so there is no deadlock. Keys are never removed and numbers never change: the first load of a home may be
// stale (from L1), and atomics and volatile loads then give the present state.
#pragma once

#include "aggregate/block/group_number.cuh"

// Keys of 32 bits: a slot has the key in its high half and its number in the low half. The key with all bits set never
// has the number UNNUMBERED, so it differs from an empty slot.
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

    // The key's group if this entry has it, otherwise UNNUMBERED.
    static __device__ __forceinline__ u32 number_in(Entry entry, u32 key) {
        return (u32)(entry >> 32) == key && (u32)entry < OVER ? (u32)entry : UNNUMBERED;
    }

    static __device__ __noinline__ Found claim(const Directory directory, u32 key, u32 hash) {
        u64* const entries = static_cast<u64*>(directory.entries);
        u32 slot = home_of(hash, directory.slots);
        for (u32 probes = 1; probes <= directory.slots; probes++) {
            u64 entry = __ldcg(entries + slot);
            if (entry == EMPTY) {
                entry = atomicCAS(entries + slot, EMPTY, (u64)key << 32 | PENDING);
                if (entry == EMPTY) {
                    return {slot, UNNUMBERED};
                }
            }
            if ((u32)(entry >> 32) == key) {
                return {slot, (u32)entry};
            }
            if (probes % PROBES == 0 && is_full(directory)) {
                break;
            }
            slot = slot + 1 < directory.slots ? slot + 1 : 0;
        }
        return {0, OVER};
    }

    static __device__ __forceinline__ void publish(const Directory& directory, u32 slot, u32 key, u32 number) {
        __stcg(static_cast<u64*>(directory.entries) + slot, (u64)key << 32 | number);
    }

    static __device__ __forceinline__ u32 wait(const Directory& directory, u32 slot) {
        u32 number = PENDING;
        while (number == PENDING) {
            number = (u32)look_now(static_cast<const u64*>(directory.entries) + slot);
        }
        return number;
    }
};

// A slot of 16 bytes: a key, or for tuples its tag, and the number of its group.
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

// Keys of 64 bits beside their numbers. The key that equals an empty slot has its own slot, the last.
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

    static __device__ __noinline__ Found claim(const Directory directory, u64 key, u32 hash) {
        Slot64* const entries = static_cast<Slot64*>(directory.entries);
        if (key == EMPTY) {
            const u32 number = atomicCAS(&entries[directory.slots].number, UNNUMBERED, PENDING);
            return {directory.slots, number};
        }
        u32 slot = home_of(hash, directory.slots);
        for (u32 probes = 1; probes <= directory.slots; probes++) {
            u64 found = __ldcg(&entries[slot].key);
            if (found == EMPTY) {
                found = atomicCAS(&entries[slot].key, EMPTY, key);
                if (found == EMPTY) {
                    return {slot, UNNUMBERED};
                }
            }
            if (found == key) {
                return {slot, PENDING};
            }
            if (probes % PROBES == 0 && is_full(directory)) {
                break;
            }
            slot = slot + 1 < directory.slots ? slot + 1 : 0;
        }
        return {0, OVER};
    }

    static __device__ __forceinline__ void publish(const Directory& directory, u32 slot, u64, u32 number) {
        __stcg(&static_cast<Slot64*>(directory.entries)[slot].number, number);
    }

    static __device__ __forceinline__ u32 wait(const Directory& directory, u32 slot) {
        return wait_for_number(static_cast<const Slot64*>(directory.entries) + slot);
    }
};

// Groups of keys; called by a whole warp.
template <typename Slots, u32 N>
__device__ __forceinline__ void number_keys(const Directory& directory, const typename Slots::Key (&key)[N],
                                            const u32 (&hash)[N], const bool (&wanted)[N], u32 (&group)[N]) {
    number_rows(
        directory, wanted, group, [&](u32 k) { return Slots::claim(directory, key[k], hash[k]); },
        [&](u32 k, u32 slot, u32 number) {
            if (number != OVER) {
                static_cast<typename Slots::Key*>(directory.keys)[number] = key[k];
            }
            Slots::publish(directory, slot, key[k], number);
        },
        [&](u32 slot) { return Slots::wait(directory, slot); });
}
