// Zone maps over the build side, and the candidates of ranges that satisfy further tests: counted, then written.
#include "theta/zones_take.cuh"

// The minimum and maximum key of every 64 build positions.
// Bound: 8.25 bytes a position. Launch: 256 threads, a block for each 2048 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
zones_leaf(const u64* __restrict__ keys, u32 n, u64* __restrict__ min_out, u64* __restrict__ max_out) {
    // Eight lanes share a leaf. Past the end they read the last key again, which is in the last leaf.
    constexpr u32 LANES = 8;
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    const u32 leaf = thread / LANES;
    u64 least = ~0ull, greatest = 0;
#pragma unroll
    for (u32 i = thread % LANES; i < LEAF; i += LANES) {
        const u64 key = keys[min(leaf * LEAF + i, n - 1)];
        least = min(least, key);
        greatest = max(greatest, key);
    }
    for (u32 distance = LANES / 2; distance > 0; distance /= 2) {
        least = min(least, __shfl_xor_sync(ALL_LANES, least, distance));
        greatest = max(greatest, __shfl_xor_sync(ALL_LANES, greatest, distance));
    }
    if (thread % LANES == 0 && leaf * LEAF < n) {
        min_out[leaf] = least;
        max_out[leaf] = greatest;
    }
}

// The next level: extremes of every 8 of `n` blocks.
// Bound: 18 bytes for each block below. Launch: 256 threads, a thread for each 8 blocks below.
extern "C" __global__ void __launch_bounds__(BLOCK)
zones_up(const u64* __restrict__ below_min, const u64* __restrict__ below_max, u32 n, u64* __restrict__ min_out,
         u64* __restrict__ max_out) {
    const u32 block = blockIdx.x * BLOCK + threadIdx.x;
    const u32 first = block * FAN_OUT;
    if (first >= n) {
        return;
    }
    u64 least = ~0ull, greatest = 0;
#pragma unroll
    for (u32 k = 0; k < FAN_OUT; k++) {
        const u32 i = min(first + k, n - 1);
        least = min(least, below_min[i]);
        greatest = max(greatest, below_max[i]);
    }
    min_out[block] = least;
    max_out[block] = greatest;
}

// The number of candidates of positions `first .. first + positions` that satisfy all tests (`exists_only`: 1 or 0),
// `counts[i]` for position `first + i`. The build side may be cut into `gridDim.y` slices, which are walked in parallel
// if positions are few: their counts are added up (zero them first), or with `by_slice` written separately, slice `s`
// at `counts[s * positions + i]`.
// Bound: about 5 instructions a lane for each key tested in a leaf. Launch: 64 threads, grid (a block for each 64
// positions, slices).
extern "C" __global__ void __launch_bounds__(WALKERS* WARP)
zones_count(const __grid_constant__ ZoneTests zones, const u32* __restrict__ lo, const u32* __restrict__ hi, u32 first,
            u32 positions, u32 exists_only, u32 by_slice, u32* __restrict__ counts) {
    __shared__ Words words_of_warps[WALKERS];
    Words& words = words_of_warps[threadIdx.x / WARP];
    const u32 i = blockIdx.x * (WALKERS * WARP) + threadIdx.x;
    const bool none = i >= positions;
    u32 next = none ? 0 : lo[first + i];
    u32 end = none ? 0 : hi[first + i];
    cut_to_slice(next, end);
    load_words(zones, first + i, none, words);
    Count count = {exists_only != 0, 0};
    walk(zones, words, next, end, count);
    const u32 found = exists_only != 0 ? min(count.count, 1u) : count.count;
    if (none) {
        return;
    }
    if (by_slice != 0) {
        counts[u64(blockIdx.y) * positions + i] = found;
    } else if (gridDim.y == 1 || (exists_only != 0 && found != 0)) {
        counts[i] = found;
    } else if (found != 0) {
        atomicAdd(&counts[i], found);
    }
}

// Leaves of a range that are sampled.
constexpr u32 SAMPLED_LEAVES = 16;

// An estimate of the tests of a walk without early exit, from a sample: `sample` positions, evenly spaced over the `m`
// probe positions, with 16 leaves each, evenly spaced over its range. A leaf whose zones leave the position's tests
// undecided adds the length of the range, in leaves, to *undecided. Divided by 16, and times m / sample, that is the
// number of (key, leaf) tests.
// Bound: 16 random reads of zones a sampled position. Launch: 256 threads, a block for each 16 sampled positions;
// *undecided is zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
zones_sample(const __grid_constant__ ZoneTests zones, const u32* __restrict__ lo, const u32* __restrict__ hi, u32 m,
             u32 sample, u64* __restrict__ undecided) {
    __shared__ Words words_of_warps[BLOCK / WARP];
    Words& words = words_of_warps[threadIdx.x / WARP];
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    const u32 sampled = thread / SAMPLED_LEAVES;
    const bool none = sampled >= sample;
    const u32 position = none ? 0 : u32(u64(sampled) * m / sample);
    const u32 from = none ? 0 : lo[position];
    const u32 to = none ? 0 : hi[position];
    load_words(zones, position, none, words);
    const bool asked = from < to;
    const u32 first = from / LEAF;
    const u32 leaves = asked ? (to - 1) / LEAF + 1 - first : 0;
    const u32 leaf = first + (2 * (thread % SAMPLED_LEAVES) + 1) * leaves / (2 * SAMPLED_LEAVES);
    const Verdict verdict = judge(zones, words, 0, asked ? leaf : 0, asked);
    u64 mine = verdict.possible && !verdict.certain ? leaves : 0;
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        mine += __shfl_xor_sync(ALL_LANES, mine, distance);
    }
    if (threadIdx.x % WARP == 0 && mine != 0) {
        atomicAdd(undecided, mine);
    }
}

// Turns counts by slice into offsets within each position's matches, in place.
// Bound: 8 bytes a count. Launch: 256 threads, a thread for each position.
extern "C" __global__ void __launch_bounds__(BLOCK)
zones_slice_offsets(u32* __restrict__ counts, u32 positions, u32 slices) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= positions) {
        return;
    }
    constexpr u32 AHEAD = 8;
    u32 sum = 0;
    for (u32 first = 0; first < slices; first += AHEAD) {
        u32 count[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            count[k] = first + k < slices ? counts[u64(first + k) * positions + i] : 0;
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            if (first + k < slices) {
                counts[u64(first + k) * positions + i] = sum;
            }
            sum += count[k];
        }
    }
}

// Up to this number of matches, a warp collects them in shared memory and writes them together.
constexpr u32 STAGED = 768;

// The build rows of the matches numbered `from .. from + len`, which are the candidates that satisfy all tests. Only
// positions `first .. first + positions` have matches there; `offsets` is indexed by probe position, with one more
// entry. With `gridDim.y` slices `slice_offsets` comes from zones_count and zones_slice_offsets over the same positions
// and slices; otherwise it is not read.
// Bound: 4 bytes a match written, and the walk as in zones_count. Launch: as zones_count.
extern "C" __global__ void __launch_bounds__(WALKERS* WARP)
zones_expand(const __grid_constant__ ZoneTests zones, const u32* __restrict__ lo, const u32* __restrict__ hi,
             const u64* __restrict__ offsets, const u32* __restrict__ slice_offsets,
             const u32* __restrict__ build_rows, u32 first, u32 positions, u64 from, u32 len,
             u32* __restrict__ out_build) {
    __shared__ Words words_of_warps[WALKERS];
    __shared__ u32 staged_of_warps[WALKERS][STAGED];
    Words& words = words_of_warps[threadIdx.x / WARP];
    u32* const staged = staged_of_warps[threadIdx.x / WARP];
    const u32 i = blockIdx.x * (WALKERS * WARP) + threadIdx.x;
    const bool none = i >= positions;
    u32 next = none ? 0 : lo[first + i];
    u32 end = none ? 0 : hi[first + i];
    cut_to_slice(next, end);

    u64 begin = 0, after = 0;
    if (!none) {
        begin = offsets[first + i];
        after = offsets[first + i + 1];
        if (blockIdx.y + 1 < gridDim.y) {
            after = begin + slice_offsets[u64(blockIdx.y + 1) * positions + i];
        }
        if (blockIdx.y > 0) {
            begin += slice_offsets[u64(blockIdx.y) * positions + i];
        }
    }
    const u64 from_here = max(begin, from);
    const u64 to_here = min(after, from + len);
    Write write = {build_rows, out_build, 0, 0, 0};
    if (from_here < to_here) {
        write.skip = u32(from_here - begin);
        write.at = u32(from_here - from);
        write.left = u32(to_here - from_here);
    } else {
        next = end;
    }
    const u32 least = warp_min(from_here < to_here ? write.at : NOWHERE);
    if (least == NOWHERE) {
        return;
    }
    // Without slices the matches of neighbours are contiguous.
    const u32 span = warp_max(write.at + write.left) - least;
    const bool stage = gridDim.y == 1 && span <= STAGED;
    if (stage) {
        write.out = staged;
        write.at -= least;
    }
    load_words(zones, first + i, none, words);
    walk(zones, words, next, end, write);
    if (stage) {
        __syncwarp();
        for (u32 pair = threadIdx.x % WARP; pair < span; pair += WARP) {
            out_build[least + pair] = staged[pair];
        }
    }
}
