// Estimates the number of groups and the skew from a sample: keys are sampled, counted by group_table (COUNT), and the
// counts of the groups are summed up here. With s sampled rows of n, d groups, f1 of them seen once and f2 twice, the
// host's estimate is d + f1^2 / (2 f2) (Chao 1984), at most d - f1 + f1 n / s; exactly d if f1 is 0.
#include "aggregate/block/group_hash.cuh"

// The row of sample `j`: a random one in each of `samples` equal parts, so that the sample is independent of the order
// and of any period of the rows.
__device__ __forceinline__ u32 sampled_row(u32 j, u32 samples, u32 n) {
    const u64 begin = (u64)n * j / samples;
    const u64 end = (u64)n * (j + 1) / samples;
    return (u32)(begin + __umulhi(hash_of(j + 1), (u32)(end - begin)));
}

template <typename Key>
__device__ __forceinline__ void take(const Key* keys, const u32* kept, u32 n, Key* out, u32* out_kept, u32 samples) {
    // Whole warps, for the ballot.
    for (u32 j = blockIdx.x * BLOCK + threadIdx.x; j < (samples + WARP - 1) / WARP * WARP; j += gridDim.x * BLOCK) {
        const u32 row = sampled_row(min(j, samples - 1), samples, n);
        const u32 word = __ballot_sync(ALL_LANES, j < samples && bit_at(kept, row));
        if (j < samples) {
            out[j] = keys[row];
        }
        if (j % WARP == 0) {
            out_kept[j / WARP] = word;
        }
    }
}

// `samples` keys (at most n), and which of their rows count. For tuples a launch for each word samples the same rows.
// Bound: two sectors at random a sample. Launch: blocks of 256, a grid of any size.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_sample_u32(const u32* __restrict__ keys, const u32* __restrict__ kept, u32 n, u32* __restrict__ out,
                     u32* __restrict__ out_kept, u32 samples) {
    take(keys, kept, n, out, out_kept, samples);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    group_sample_u64(const u64* __restrict__ keys, const u32* __restrict__ kept, u32 n, u64* __restrict__ out,
                     u32* __restrict__ out_kept, u32 samples) {
    take(keys, kept, n, out, out_kept, samples);
}

// Statistics of `counts`: the number of groups, of those seen once and of those seen twice, the greatest count; the
// number of heavy groups, which are seen at least `heavy` times, and of their samples.
struct Profile {
    u32 groups, once, twice, greatest, heavy_groups, heavy_samples;
};

constexpr u32 MAX_HEAVY = 64;

// Adds up the profile of the groups that were seen at all; the first MAX_HEAVY heavy groups are stored in `heavy_ids`,
// in no order. There are `groups[0]` counts. Bound: 8 bytes read a group. Launch: blocks of 256, a grid of any size;
// `profile` is zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_sample_profile(const u64* __restrict__ counts, const u32* __restrict__ groups, u32 heavy,
                         Profile* __restrict__ profile, u32* __restrict__ heavy_ids) {
    const u32 n = *groups;
    Profile mine = {};
    for (u32 g = blockIdx.x * BLOCK + threadIdx.x; g < n; g += gridDim.x * BLOCK) {
        const u32 count = (u32)counts[g];
        mine.groups += count != 0;
        mine.once += count == 1;
        mine.twice += count == 2;
        mine.greatest = max(mine.greatest, count);
        if (count >= heavy) {
            const u32 at = atomicAdd(&profile->heavy_groups, 1u);
            if (at < MAX_HEAVY) {
                heavy_ids[at] = g;
            }
            mine.heavy_samples += count;
        }
    }
    for (u32 lanes = WARP / 2; lanes > 0; lanes /= 2) {
        mine.groups += __shfl_xor_sync(ALL_LANES, mine.groups, lanes);
        mine.once += __shfl_xor_sync(ALL_LANES, mine.once, lanes);
        mine.twice += __shfl_xor_sync(ALL_LANES, mine.twice, lanes);
        mine.greatest = max(mine.greatest, __shfl_xor_sync(ALL_LANES, mine.greatest, lanes));
        mine.heavy_samples += __shfl_xor_sync(ALL_LANES, mine.heavy_samples, lanes);
    }
    if (threadIdx.x % WARP == 0 && mine.greatest != 0) {
        atomicAdd(&profile->groups, mine.groups);
        atomicAdd(&profile->once, mine.once);
        atomicAdd(&profile->twice, mine.twice);
        atomicMax(&profile->greatest, mine.greatest);
        atomicAdd(&profile->heavy_samples, mine.heavy_samples);
    }
}
