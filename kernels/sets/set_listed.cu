// Sets from lists that have no duplicates, with few ranks: a bitmap of ranks in shared memory replaces a sort.
#include <cub/block/block_scan.cuh>

#include "sets/set.cuh"

// The number of ranks in a block's bitmap.
constexpr u32 MOST_RANKS = 1 << 17;

// elements[offsets[p] .. offsets[p + 1]]: the ranks, ascending, of the values of list order[p], whose ids begin at
// starts[order[p]]. A value without a rank has an id of at least `known`, or an id whose rank is NONE. If a list has
// fewer ranks than values, because some have none or are duplicates, *fewer is set, and its last elements are not
// written.
// Bound: 12 bytes a value, 4 of them at random; a rank's bit is set, read and cleared in shared memory for each list.
// Launch: 256 threads, a grid of any size (8 blocks a multiprocessor); `universe` is at most MOST_RANKS; *fewer is
// zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_listed_elements(const u32* __restrict__ order, const u32* __restrict__ starts, const u32* __restrict__ ids,
                    const u32* __restrict__ ranks, u32 known, u32 universe, const u32* __restrict__ offsets, u32 n,
                    u32* __restrict__ elements, u32* fewer) {
    using Scan = cub::BlockScan<u32, BLOCK>;
    __shared__ typename Scan::TempStorage scratch;
    __shared__ u32 bits[MOST_RANKS / 32];
    const u32 words = (universe + 31) / 32;
    for (u32 w = threadIdx.x; w < words; w += BLOCK) {
        bits[w] = 0;
    }
    __syncthreads();

    for (u32 set = blockIdx.x; set < n; set += gridDim.x) {
        const u32 begin = offsets[set];
        const u32 length = offsets[set + 1] - begin;
        const u32* values = ids + starts[order[set]];
#pragma unroll 4
        for (u32 i = threadIdx.x; i < length; i += BLOCK) {
            const u32 id = values[i];
            const u32 rank = id < known ? ranks[id] : NONE;
            if (rank != NONE) {
                atomicOr(&bits[rank / 32], 1u << rank % 32);
            }
        }
        __syncthreads();

        u32 found = 0;
        for (u32 first = 0; first < words; first += BLOCK) {
            const u32 w = first + threadIdx.x;
            u32 word = w < words ? bits[w] : 0;
            u32 before, total;
            Scan(scratch).ExclusiveSum(__popc(word), before, total);
            for (u32* to = elements + begin + found + before; word != 0; word &= word - 1) {
                *to++ = w * 32 + __ffs(word) - 1;
            }
            found += total;
            if (w < words) {
                bits[w] = 0;
            }
            // The scratch memory is reused, and the next list's bits are set after these were cleared.
            __syncthreads();
        }
        if (threadIdx.x == 0 && found != length) {
            *fewer = 1;
        }
    }
}
