// Equal sets of one side are joined once ([B] 4.1.2, GroupJoin, for whole sets): sets are hashed; where many are equal,
// they are ordered by group, size and hash, and neighbours that are equal share a set. Hashes order sets and decide
// nothing else: equal ones that a collision separates stay apart.
#include "shared/search.cuh"
#include "sets/set_words.cuh"

constexpr u32 TEAM = 8;

// The mixing function of SplitMix64.
__device__ __forceinline__ u64 mixed(u64 word) {
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return word ^ word >> 31;
}

// The hash of each set with its size and group (null: no groups), and how many hashes fall into each of `counters`
// counters, a power of two.
// Bound: 4 bytes an element and 16 a set, and an atomic a set. Launch: 256 threads, a block for each 32 sets, 8 threads
// a set; counts are zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_equal_hash(const __grid_constant__ Sets sets, const u32* __restrict__ groups, u32 counters, u32* __restrict__ hashes,
               u32* counts) {
    const u32 set = blockIdx.x * (BLOCK / TEAM) + threadIdx.x / TEAM;
    const u32 lane = threadIdx.x % TEAM;
    u64 sum = 0;
    if (set < sets.n) {
        const u32 end = sets.offsets[set + 1];
        for (u32 i = sets.offsets[set] + lane; i < end; i += TEAM) {
            sum += mixed(u64(sets.elements[i]) + 0x9E3779B97F4A7C15ull);
        }
    }
#pragma unroll
    for (u32 distance = TEAM / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(ALL_LANES, sum, distance, TEAM);
    }
    if (set < sets.n && lane == 0) {
        const u32 group = groups == nullptr ? 0 : groups[set];
        const u32 hash = u32(mixed(sum ^ mixed(u64(group) << 32 | sets.sizes[set])));
        hashes[set] = hash;
        atomicAdd(&counts[hash & (counters - 1)], 1u);
    }
}

// Whether two sets have one group and one size.
__device__ __forceinline__ bool are_alike(const Sets& sets, const u32* groups, u32 a, u32 b) {
    return sets.sizes[a] == sets.sizes[b] && (groups == nullptr || groups[a] == groups[b]);
}

// out[i]: the first set of the group and size of set i, above the hash of set i. Sets are ordered by group and size, and
// group g has those from segments[g] on; both are null without groups.
// Bound: log2(n) dependent reads, 16 bytes a set. Launch: 256 threads, a thread for each set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_equal_words(const __grid_constant__ Sets sets, const u32* __restrict__ groups, const u32* __restrict__ segments,
                const u32* __restrict__ hashes, const __grid_constant__ Words out) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= sets.n) {
        return;
    }
    const u32 begin = groups == nullptr ? 0 : segments[groups[i]];
    const u32 size = sets.sizes[i];
    const u32 first = partition_point(begin, i, [&](u32 s) { return sets.sizes[s] < size; });
    const u32 hash = hashes[i];
    out.as_they_are([=](auto words) { words[i] = words.make(first, hash); });
}

// Bit i: set order[i] differs from set order[i - 1]. Elements that the build side lacks match none, so that only their
// number counts, which is part of the size.
// Bound: 4 bytes at random a set, and the elements of both sets where hashes are equal. Launch: 256 threads, a block for
// each 1024 sets.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_equal_heads(const __grid_constant__ Sets sets, const u32* __restrict__ groups, const u32* __restrict__ hashes,
                const u32* __restrict__ order, u32* __restrict__ bits) {
    const auto differs = [&](u32 i) {
        if (i == 0) {
            return true;
        }
        const u32 a = order[i - 1], b = order[i];
        const u32 length = sets.length(a);
        if (hashes[a] != hashes[b] || !are_alike(sets, groups, a, b) || length != sets.length(b)) {
            return true;
        }
        const u32* const x = sets.of(a);
        const u32* const y = sets.of(b);
        for (u32 k = 0; k < length; k++) {
            if (x[k] != y[k]) {
                return true;
            }
        }
        return false;
    };
    each_word(sets.n, differs, [=](u32 w, u32 word) { bits[w] = word; });
}

// lengths[i] = the number of elements of set chosen[i]. Bound: 12 bytes at random a set. Launch: 256 threads, a block
// for each 1024 chosen sets.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_equal_lengths(const __grid_constant__ Sets sets, const u32* __restrict__ chosen, u32 n, u32* __restrict__ lengths) {
    each_row(n, [&](u32 i) { return sets.length(chosen[i]); }, [=](u32 i, u32 length) { lengths[i] = length; });
}

// The elements of the chosen sets, those of set chosen[i] from offsets[i] on.
// Bound: 8 bytes an element and 12 a set. Launch: 256 threads, a block for each 32 chosen sets, 8 threads a set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_equal_elements(const __grid_constant__ Sets sets, const u32* __restrict__ chosen, u32 n, const u32* __restrict__ offsets,
                   u32* __restrict__ out) {
    const u32 i = blockIdx.x * (BLOCK / TEAM) + threadIdx.x / TEAM;
    if (i >= n) {
        return;
    }
    const u32* const from = sets.of(chosen[i]);
    const u32 begin = offsets[i], length = offsets[i + 1] - begin;
    for (u32 k = threadIdx.x % TEAM; k < length; k += TEAM) {
        out[begin + k] = from[k];
    }
}

// out[i]: how many of the n ascending `starts` are below segments[i], for n segments and their end.
// Bound: log2(n) dependent reads, 8 bytes a segment. Launch: 256 threads, a thread for each of `count`.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_equal_segments(const u32* __restrict__ starts, u32 n, const u32* __restrict__ segments, u32 count, u32* __restrict__ out) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < count) {
        const u32 begin = segments[i];
        out[i] = partition_point(0, n, [&](u32 k) { return starts[k] < begin; });
    }
}

// sums[rows[i]] += covering[i]. Bound: 8 bytes and an atomic at random a position. Launch: 256 threads, a block for each
// 1024 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_equal_occur(const u32* __restrict__ rows, const u32* __restrict__ covering, u32 n, u32* sums) {
    each_row(
        n, [=](u32 i) { return uint2{rows[i], covering[i]}; },
        [=](u32, uint2 of) { atomicAdd(&sums[of.x], of.y); });
}
