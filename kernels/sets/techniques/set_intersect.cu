// Intersection sizes of given pairs of huge sets ([B] 6.2.1), cut into tiles of equal work whatever the sizes: by the
// intersect path (IP) for sets of similar size, by optimised binary search (OBS) if one is much larger; the choice,
// pair by pair, is IP-OBS.
#include "sets/set_verify.cuh"

// Steps of the path for a block, and elements of a smaller set that it searches in the larger.
constexpr u32 STEPS_OF_THREAD = 16;
constexpr u32 PATH = BLOCK * STEPS_OF_THREAD;
constexpr u32 SEARCHED = 2048;
// Elements of the larger set in shared memory: the first levels of the search.
constexpr u32 SAMPLES = 2048;

// A pair with the smaller set first. `ratio`: from this size ratio on the larger set is searched, not merged.
struct Both {
    const u32* small;
    const u32* large;
    u32 few, many;
    bool search;

    __device__ __forceinline__ Both(const Sets& probe, const Sets& build, u32 r, u32 s, u32 ratio) {
        const u32 a = probe.length(r), b = build.length(s);
        small = a <= b ? probe.of(r) : build.of(s);
        large = a <= b ? build.of(s) : probe.of(r);
        few = min(a, b);
        many = max(a, b);
        search = u64(few) * ratio <= many;
    }
    __device__ __forceinline__ u32 tiles() const {
        const u32 items = search ? few : few + many;
        const u32 tile = search ? SEARCHED : PATH;
        return few == 0 ? 0 : (items - 1) / tile + 1;
    }
};

// The number of tiles of each of n pairs (probe set rs[p], build set ss[p]). With `ratio` 0 all pairs are searched,
// with 2^32 - 1 hardly any.
// Bound: 12 bytes and two random reads of offsets a pair. Launch: 256 threads, a thread for each pair.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_intersect_tiles(const __grid_constant__ Sets probe, const __grid_constant__ Sets build, const u32* __restrict__ rs,
                    const u32* __restrict__ ss, u32 n, u32 ratio, u32* __restrict__ tiles) {
    const u32 pair = blockIdx.x * BLOCK + threadIdx.x;
    if (pair < n) {
        tiles[pair] = Both(probe, build, rs[pair], ss[pair], ratio).tiles();
    }
}

// The number of elements of `x` among the first `diagonal` elements of both sets in order; equal elements of `x` come
// first.
template <typename Search>
__device__ __forceinline__ u32 crossing(const u32* x, u32 x_len, const u32* y, u32 y_len, u32 diagonal, Search search) {
    return search(diagonal - min(diagonal, y_len), min(diagonal, x_len), [&](u32 i) { return x[i] <= y[diagonal - 1 - i]; });
}

// Intersect path: the block's part of both sets is in shared memory, and each thread merges the same number of steps. A
// common element is counted at the second of its two occurrences, so the part begins with the element before.
__device__ __forceinline__ u32 count_path(const Both& both, u32 tile, u32* shared, u32* limits) {
    const u32 begin = tile * PATH;
    const u32 end = min(begin + PATH, both.few + both.many);
    if (threadIdx.x < 2 * WARP) {
        const u32 at = crossing(both.small, both.few, both.large, both.many, threadIdx.x < WARP ? begin : end,
                                [](u32 from, u32 to, auto holds) { return warp_partition_point(from, to, holds); });
        if (threadIdx.x % WARP == 0) {
            limits[threadIdx.x / WARP] = at;
        }
    }
    __syncthreads();
    const u32 first_x = limits[0], x_len = limits[1] - first_x;
    const u32 first_y = begin - first_x, y_len = end - begin - x_len;
    u32* const x = shared + 1;
    u32* const y = x + x_len;
    for (u32 i = threadIdx.x; i < x_len; i += BLOCK) {
        x[i] = both.small[first_x + i];
    }
    for (u32 i = threadIdx.x; i < y_len; i += BLOCK) {
        y[i] = both.large[first_y + i];
    }
    if (threadIdx.x == 0) {
        shared[0] = first_x == 0 ? NONE : both.small[first_x - 1];
    }
    __syncthreads();

    const u32 step = min(threadIdx.x * STEPS_OF_THREAD, x_len + y_len);
    const u32 steps = min(STEPS_OF_THREAD, x_len + y_len - step);
    u32 i = crossing(x, x_len, y, y_len, step, [](u32 from, u32 to, auto holds) { return partition_point(from, to, holds); });
    u32 j = step - i;
    u32 common = 0;
    for (u32 k = 0; k < steps; k++) {
        if (i < x_len && (j == y_len || x[i] <= y[j])) {
            i++;
        } else {
            // shared[i] is the element before x[i].
            common += shared[i] == y[j];
            j++;
        }
    }
    return common;
}

// Optimised binary search: the block's elements of the smaller set are between two positions of the larger; evenly
// spaced elements of that range are in shared memory.
__device__ __forceinline__ u32 count_search(const Both& both, u32 tile, u32* shared, u32* limits) {
    const u32 begin = tile * SEARCHED;
    const u32 end = min(begin + SEARCHED, both.few);
    if (threadIdx.x < 2 * WARP) {
        const u32 x = both.small[threadIdx.x < WARP ? begin : end - 1];
        const u32 at = warp_partition_point(0, both.many, [&](u32 k) { return both.large[k] < x; });
        if (threadIdx.x % WARP == 0) {
            limits[threadIdx.x / WARP] = at;
        }
    }
    __syncthreads();
    const u32 from = limits[0];
    const u32 to = min(limits[1] + 1, both.many);
    const u32 step = max((to - from + SAMPLES - 1) / SAMPLES, 1u);
    const u32 samples = (to - from + step - 1) / step;
    for (u32 i = threadIdx.x; i < samples; i += BLOCK) {
        shared[i] = both.large[from + i * step];
    }
    __syncthreads();

    u32 common = 0;
#pragma unroll 2
    for (u32 i = begin + threadIdx.x; i < end; i += BLOCK) {
        const u32 x = both.small[i];
        const u32 sample = partition_point(0, samples, [&](u32 k) { return shared[k] <= x; });
        if (sample != 0) {
            const u32 first = from + (sample - 1) * step;
            const u32 last = min(first + step, to) - 1;
            common += both.large[partition_point(first, last, [&](u32 k) { return both.large[k] < x; })] == x;
        }
    }
    return common;
}

// counts[p] += the size of the intersection of pair p's sets, by tiles: `tile_offsets` are the exclusive sums of the
// counts of set_intersect_tiles with the same `ratio`.
// Bound: a merged pair's elements read once (4 bytes each) and about 10 instructions an element; a searched pair's
// smaller set and, for each element, log2 of the larger's length less 11 in dependent reads. Launch: 256 threads, a
// grid of any size: a block for each tile, at most 8 a multiprocessor; counts are zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_intersect_counts(const __grid_constant__ Sets probe, const __grid_constant__ Sets build, const u32* __restrict__ rs,
                     const u32* __restrict__ ss, u32 n, u32 ratio, const u64* __restrict__ tile_offsets, u32* counts) {
    __shared__ u32 shared[PATH + 1];
    __shared__ u32 limits[2];
    const u64 tiles = tile_offsets[n];
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const u32 pair = warp_partition_point(0, n, [&](u32 p) { return tile_offsets[p + 1] <= tile; });
        const Both both(probe, build, rs[pair], ss[pair], ratio);
        const u32 part = u32(tile - tile_offsets[pair]);
        u32 common = both.search ? count_search(both, part, shared, limits) : count_path(both, part, shared, limits);
        for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
            common += __shfl_xor_sync(ALL_LANES, common, distance);
        }
        if (threadIdx.x % WARP == 0 && common != 0) {
            atomicAdd(&counts[pair], common);
        }
        __syncthreads();
    }
}

// The matches among n pairs with known overlaps.
// Bound: 12 bytes and two random reads a pair. Launch: 256 threads, a thread for each pair.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_intersect_take(const __grid_constant__ Join join, const u32* __restrict__ rs, const u32* __restrict__ ss,
                   const u32* __restrict__ overlaps, u32 n) {
    const u32 pair = blockIdx.x * BLOCK + threadIdx.x;
    const bool inside = pair < n;
    const u32 r = inside ? rs[pair] : 0, s = inside ? ss[pair] : 0;
    const bool match = inside && join.measure.passes(overlaps[pair], join.probe.sizes[r], join.build.sizes[s]);
    join.take(match, r, s);
}
