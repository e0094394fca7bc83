// Candidates from inverted lists: ranges of lists, one for each probe (an element of a probe set), cut into tiles of
// equal work whatever the lengths of the ranges. Candidates are numbered in the order of probes.
#pragma once

#include "theta/expand_tile.cuh"
#include "sets/set_verify.cuh"

// The ranges: probe p has candidates offsets[p] .. offsets[p + 1], stored from starts[p] on in the lists. Those
// numbered `from .. from + len` are tested, `len` below 2^31.
struct Probes {
    const u32* starts;
    const u64* offsets;
    u64 from;
    u32 len;
    u32 count;
};

// Passes the block's candidates to `test(probe, at, candidate)`, where `at` is a position in the lists. It fills in the
// candidate and returns whether it survives; survivors are then verified.
template <typename Test>
__device__ __forceinline__ void test_candidates(const Probes& probes, const Join& join, Test test) {
    __shared__ Owners owners;
    __shared__ Candidate waiting[WARPS][Queue::SLOTS];
    Queue queue = {waiting[threadIdx.x / WARP], 0, 0};
    const Window all = {probes.offsets, probes.from, probes.from + probes.len, 0, 0};
    each_tile(all, probes.count, [&](const Window& window, const Tile& tile) {
        mark_owners(window, tile, owners, [&](u32 probe, u32 place, u32 shift) {
            owners.ids[place] = probe;
            owners.bases[place] = probes.starts[probe] + shift;
        });
        const u32 first = tile.first_slot();
#pragma unroll 1
        for (u32 begin = 0; first + begin < tile.end_pairs; begin += BLOCK) {
            const u32 slot = begin + threadIdx.x;
            const u32 pair = first + slot;
            Candidate candidate = {};
            bool mine = pair >= tile.pairs && pair < tile.end_pairs;
            if (mine) {
                const u32 place = owners.place[slot];
                mine = test(owners.ids[place], owners.bases[place] + slot, candidate);
            }
            queue.push(join, mine, candidate);
        }
        __syncthreads();
    });
    queue.finish(join);
}
