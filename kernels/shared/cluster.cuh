// Blocks of a cluster, each of which addresses the shared memory of all. For compute_90.
#pragma once

#include "shared/common.cuh"

__device__ __forceinline__ u32 cluster_blocks() {
    u32 blocks;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

// The block's place among those of its cluster.
__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Waits for all threads of the cluster, and sees what they did before.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where a block of the cluster has what this one has at `shared`. It lives until that block ends.
template <typename T>
__device__ __forceinline__ T* at_rank(T* shared, u32 rank) {
    u64 there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return reinterpret_cast<T*>(there);
}
