// The memory of the device, and which bytes of it are allocated.
#pragma once
#include "instruction.hpp"
#include <string>

u64 allocate_global(u64 bytes);
void free_global(u64 address);
/// Whether all bytes there are allocated, on the device or pinned on the host.
constexpr u64 ARENA = 64ull << 30;
constexpr u64 GRANULE = 16;
extern u64 arena_begin;
/// Bytes of each granule that are allocated.
extern const u8 *arena_shadow;
bool pinned_or_allocated(u64 address, u32 bytes);
/// Not across granules, as what kernels read is aligned.
inline bool allocated(u64 address, u32 bytes) {
    u64 at = address - arena_begin;
    if (at < ARENA && arena_shadow) return (at % GRANULE) + bytes <= arena_shadow[at / GRANULE];
    return pinned_or_allocated(address, bytes);
}
void allow(u64 address, u64 bytes, bool allowed);
bool of_device(u64 address);
std::string neighbours(u64 address);
u64 device_bytes();
u64 device_free();
