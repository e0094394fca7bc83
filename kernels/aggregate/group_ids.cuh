// The directory for tuples of words: a slot has a part of the tuple's hash and a row with this tuple, whose words are
// then compared.
#pragma once

#include "aggregate/block/group_directory.cuh"

// Rows of words: word `j` of row `i` is at `j * rows + i`.
struct Words {
    const u64* words;
    u32 rows, width;

    __device__ __forceinline__ u64 hash(u32 i, u32 seed) const {
        u64 hash = (u64)seed << 32 | width;
        for (u32 j = 0; j < width; j++) {
            hash = mixed64(hash ^ __ldg(words + (u64)j * rows + i)) + 0x9E3779B97F4A7C15ull;
        }
        return hash;
    }
};

__device__ __forceinline__ bool are_equal(const Words& tuples, u32 i, u32 k) {
    for (u32 j = 0; j < tuples.width; j++) {
        const u64* const words = tuples.words + (u64)j * tuples.rows;
        if (__ldg(words + i) != __ldg(words + k)) {
            return false;
        }
    }
    return true;
}

// Rows are below 2^31, so that no tag with a row equals an empty slot.
constexpr u64 NO_TUPLE = ~0ull;

__device__ __forceinline__ u64 tag_of(u64 hash, u32 row) {
    return hash >> 32 << 32 | row;
}

__device__ __forceinline__ bool have_one_tag(u64 slot, u64 hash) {
    return slot >> 32 == hash >> 32;
}

// The slot of tuple `i`; a new one if the tuple has none.
__device__ __forceinline__ Found claim_tuple(const Directory& directory, const Words& tuples, u32 i) {
    Slot64* const entries = static_cast<Slot64*>(directory.entries);
    const u64 hash = tuples.hash(i, directory.seed);
    u32 slot = home_of((u32)hash, directory.slots);
    for (u32 probes = 1; probes <= directory.slots; probes++) {
        u64 found = __ldcg(&entries[slot].key);
        if (found == NO_TUPLE) {
            found = atomicCAS(&entries[slot].key, NO_TUPLE, tag_of(hash, i));
            if (found == NO_TUPLE) {
                return {slot, UNNUMBERED};
            }
        }
        if (have_one_tag(found, hash) && are_equal(tuples, (u32)found, i)) {
            return {slot, PENDING};
        }
        if (probes % PROBES == 0 && is_full(directory)) {
            break;
        }
        slot = slot + 1 < directory.slots ? slot + 1 : 0;
    }
    return {0, OVER};
}

// The group of each lane's tuple `i` if it is wanted; called by a whole warp.
__device__ __forceinline__ u32 number_tuple(const Directory& directory, const Words& tuples, u32 i, bool is_wanted) {
    const bool wanted[1] = {is_wanted};
    u32 group[1];
    number_rows(
        directory, wanted, group, [&](u32) { return claim_tuple(directory, tuples, i); },
        [&](u32, u32 slot, u32 number) {
            if (number != OVER) {
                static_cast<u32*>(directory.keys)[number] = i;
            }
            Slots64::publish(directory, slot, 0, number);
        },
        [&](u32 slot) { return Slots64::wait(directory, slot); });
    return group[0];
}
