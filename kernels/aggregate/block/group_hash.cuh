// Hashes of keys. Neighbouring numbers, and numbers that differ only in high bits, must not collide: both hashes
// multiply and fold twice, as in MurmurHash3's last step.
#pragma once

#include "shared/tile.cuh"

__device__ __forceinline__ u32 hash_of(u32 key) {
    key ^= key >> 16;
    key *= 0x85EBCA6Bu;
    key ^= key >> 13;
    key *= 0xC2B2AE35u;
    return key ^ key >> 16;
}

__device__ __forceinline__ u64 mixed64(u64 key) {
    key ^= key >> 33;
    key *= 0xFF51AFD7ED558CCDull;
    key ^= key >> 33;
    key *= 0xC4CEB9FE1A85EC53ull;
    return key ^ key >> 33;
}

__device__ __forceinline__ u32 hash_of(u64 key) {
    return (u32)mixed64(key);
}

// The same with a seed, so that keys that were prepared have not one home.
__device__ __forceinline__ u32 hash_of(u32 key, u32 seed) {
    return hash_of(key ^ seed);
}

__device__ __forceinline__ u32 hash_of(u64 key, u32 seed) {
    return hash_of(key ^ ((u64)seed << 32 | seed));
}

// The home of a hash among any number of `slots`, by its upper bits.
__device__ __forceinline__ u32 home_of(u32 hash, u32 slots) {
    return __umulhi(hash, slots);
}

// One of up to 2^16 `teams`, by lower bits than those of a home among few slots.
__device__ __forceinline__ u32 team_of(u32 hash, u32 teams) {
    return (hash & 0xFFFFu) * teams >> 16;
}
