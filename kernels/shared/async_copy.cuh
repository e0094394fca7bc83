// Copies to shared memory that pass no register, so that a thread can have many under way while it does something else.
#pragma once

#include "shared/common.cuh"

// Bytes that a copy moves; both addresses are multiples of it.
constexpr u32 COPY_BYTES = 16;

// Writes COPY_BYTES, of which `bytes` are read and the others are 0.
__device__ __forceinline__ void begin_copy(void* shared, const void* from, u32 bytes) {
    const u32 to = (u32)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Waits for the copies that this thread has begun; others' are there after a barrier.
__device__ __forceinline__ void end_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
