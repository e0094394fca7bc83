// Hashes of keys. Neighbouring numbers, and numbers that differ in high bits alone, must not fall together: keys are multiplied
// and folded twice, as in MurmurHash3's last step.
#pragma once

#include "tile.cuh"

__device__ __forceinline__ u64 mix(u64 key) {
    key ^= key >> 33;
    key *= 0xFF51AFD7ED558CCDull;
    key ^= key >> 33;
    key *= 0xC4CEB9FE1A85EC53ull;
    return key ^ key >> 33;
}

__device__ __forceinline__ u32 hash_of(u64 key) {
    return (u32)mix(key);
}

// Of `slots`, any number, by the hash's upper bits.
__device__ __forceinline__ u32 home_of(u32 hash, u32 slots) {
    return __umulhi(hash, slots);
}
