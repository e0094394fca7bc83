// Asynchronous copies from global to shared memory. They use no register, so a thread can keep many in flight while it
// does other work.
#pragma once

#include "shared/common.cuh"

// Bytes of one copy. Both addresses are multiples of it.
constexpr u32 COPY_BYTES = 16;

// Writes COPY_BYTES to shared memory: the first `bytes` from `from`, zeros after them.
__device__ __forceinline__ void begin_copy(void* shared, const void* from, u32 bytes) {
    const u32 to = (u32)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Waits for the copies that this thread has begun. Copies of other threads are visible after a barrier.
__device__ __forceinline__ void end_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
