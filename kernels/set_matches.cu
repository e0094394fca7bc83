// Before and after the tests of a set join: which sorted sets a searching set may match by size, and lists of matches from pairs.
#include "search.cuh"
#include "set.cuh"

// For each searching set the positions lo .. hi of the sorted sets (whose sizes ascend) that the measure may let match: all
// others have too few elements, or too many ([B] table 4.1, length filter). Elements that the sorted side lacks match nothing.
// Bound: twice the binary logarithm of the sorted side's length in reads that wait for one another, 16 bytes a searching set.
// Launch: 256 threads, a thread a searching set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_windows(const __grid_constant__ Sets searching, const u32* __restrict__ sorted_sizes, u32 sorted_n,
            const __grid_constant__ Measure measure, u32* __restrict__ lo, u32* __restrict__ hi) {
    const u32 r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= searching.n) {
        return;
    }
    const u32 a = searching.sizes[r];
    const u32 present = searching.length(r);
    const auto may_match = [&](u32 s) {
        const u32 b = sorted_sizes[s];
        return measure.passes(min(present, b), a, b);
    };
    // Up to the size `present` a longer set is likelier to match, from there on less likely.
    const u32 middle = partition_point(0, sorted_n, [&](u32 s) { return sorted_sizes[s] < present; });
    const u32 from = partition_point(0, middle, [&](u32 s) { return !may_match(s); });
    const u32 to = partition_point(middle, sorted_n, may_match);
    lo[r] = from;
    hi[r] = to;
}

// Brings the sorted sets of `pairs` (searching set << 32 | sorted set) to where their searching sets' lists begin; `counts`,
// from which the offsets were summed, are counted down to zero. The order within a list is any.
// Bound: 8 bytes read and 4 written at random a pair, and an atomic. Launch: 256 threads, a block for each 1024 pairs.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_place(const u64* __restrict__ pairs, u32 n, const u64* __restrict__ offsets, u32* counts, u32* __restrict__ matches) {
    each_row(n, [=](u32 i) { return pairs[i]; },
             [=](u32, u64 pair) {
                 const u32 r = u32(pair >> 32);
                 matches[offsets[r] + atomicSub(&counts[r], 1u) - 1] = u32(pair);
             });
}
