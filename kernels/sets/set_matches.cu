// Steps before and after the tests of a set join: the build sets that a probe set may match by size, and lists of
// matches from pairs.
#include "shared/search.cuh"
#include "sets/set.cuh"

// The build sets of a group (without groups: all), and the first of them that is not empty.
struct Segment {
    u32 begin, filled, end;

    __device__ __forceinline__ Segment(const u32* groups, const u32* segments, u32 r, const u32* build_sizes, u32 build_n) {
        begin = groups == nullptr ? 0 : segments[groups[r]];
        end = groups == nullptr ? build_n : segments[groups[r] + 1];
        filled = partition_point(begin, end, [&](u32 s) { return build_sizes[s] == 0; });
    }
};

// For each probe set the window lo .. hi of the build sets of its group (whose sizes ascend) that may match: all others
// have too few or too many elements ([B] table 4.1, length filter). Elements that the build side lacks match nothing.
// Empty sets are in no window, as their matches are known without a test. Group g has the build sets segments[g] ..
// segments[g + 1]; both pointers are null if there are no groups. In a self-join, windows begin (`half` 1) or end (2)
// at the set itself.
// Bound: three times log2 of the build side's length in dependent reads, 16 bytes a probe set. Launch: 256 threads, a
// thread for each probe set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_matches_windows(const __grid_constant__ Sets probe, const u32* __restrict__ groups, const u32* __restrict__ segments,
                    const u32* __restrict__ build_sizes, u32 build_n, const __grid_constant__ Measure measure, u32 half,
                    u32* __restrict__ lo, u32* __restrict__ hi) {
    const u32 r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= probe.n) {
        return;
    }
    const u32 a = probe.sizes[r];
    const u32 present = probe.length(r);
    const auto may_match = [&](u32 s) {
        const u32 b = build_sizes[s];
        return measure.may_pass(min(present, b), a, b);
    };
    const Segment segment(groups, segments, r, build_sizes, build_n);
    // Up to the size `present` a longer set is more likely to match, from there on less likely.
    const u32 middle = partition_point(segment.filled, segment.end, [&](u32 s) { return build_sizes[s] < present; });
    const u32 from = partition_point(segment.filled, middle, [&](u32 s) { return !may_match(s); });
    const u32 to = a == 0 ? from : partition_point(middle, segment.end, may_match);
    lo[r] = half == 1 ? min(max(from, r), to) : from;
    hi[r] = half == 2 ? max(min(to, r + 1), from) : to;
}

// The matches of probe sets because they, or the build sets, are empty: a range lo .. hi of the build sets of their
// group, empty ones first. Bits of `matching`: 1, an empty set matches empty ones; 2, an empty set matches others; 4,
// others match empty ones. counts[r] grows by the range's length. Groups are those of set_matches_windows.
// Bound: 16 bytes a probe set, two random reads, and log2 of a group's length in dependent reads. Launch: 256 threads,
// a block for each 1024 probe sets.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_matches_empty(const u32* __restrict__ sizes, const u32* __restrict__ groups, u32 n, const u32* __restrict__ segments,
                  const u32* __restrict__ build_sizes, u32 build_n, u32 matching, u32* __restrict__ counts,
                  u32* __restrict__ lo, u32* __restrict__ hi) {
    each_row(
        n,
        [=](u32 r) {
            const Segment segment(groups, segments, r, build_sizes, build_n);
            if (sizes[r] != 0) {
                return uint2{segment.begin, (matching & 4) != 0 ? segment.filled : segment.begin};
            }
            return uint2{(matching & 1) != 0 ? segment.begin : segment.filled,
                         (matching & 2) != 0 ? segment.end : segment.filled};
        },
        [=](u32 r, uint2 range) {
            counts[r] += range.y - range.x;
            lo[r] = range.x;
            hi[r] = range.y;
        });
}

// differ[0] = 1 if a word of `a` differs from that of `b`. Bound: 8 bytes a word. Launch: 256 threads, a block for each
// 1024 words; differ[0] is zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_matches_differ(const u32* __restrict__ a, const u32* __restrict__ b, u32 n, u32* differ) {
    each_row(n, [=](u32 i) { return a[i] != b[i]; },
             [=](u32, bool other) {
                 if (other) {
                     differ[0] = 1;
                 }
             });
}

// out[i] = probe[i] << 32 | build[i]. Bound: 16 bytes a match. Launch: 256 threads, a block for each 1024 matches.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_matches_pack(const u32* __restrict__ probe, const u32* __restrict__ build, u32 n, u64* __restrict__ out) {
    each_row(n, [=](u32 i) { return u64(probe[i]) << 32 | build[i]; }, [=](u32 i, u64 pair) { out[i] = pair; });
}

// counts[r] = 1 if it is not 0. Bound: 8 bytes a count. Launch: 256 threads, a block for each 1024 counts.
extern "C" __global__ void __launch_bounds__(BLOCK) set_matches_exist(u32* counts, u32 n) {
    each_row(n, [=](u32 r) { return counts[r]; }, [=](u32 r, u32 count) { counts[r] = min(count, 1u); });
}

// sums[i] += added[i]. Bound: 12 bytes a sum. Launch: 256 threads, a block for each 1024 sums.
extern "C" __global__ void __launch_bounds__(BLOCK) set_matches_add(u32* sums, const u32* __restrict__ added, u32 n) {
    each_row(n, [=](u32 i) { return sums[i] + added[i]; }, [=](u32 i, u32 sum) { sums[i] = sum; });
}

// Scatters the build sets of `pairs` (probe set << 32 | build set) into the lists of their probe sets; `counts`, from
// which the offsets were summed, are counted down to zero. A list is in no order.
// Bound: 8 bytes read and 4 written at random a match, and an atomic. Launch: 256 threads, a block for each 1024
// matches.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_matches_place(const u64* __restrict__ pairs, u32 n, const u32* __restrict__ offsets, u32* counts,
                  u32* __restrict__ matches) {
    each_row(n, [=](u32 i) { return pairs[i]; },
             [=](u32, u64 pair) {
                 const u32 r = u32(pair >> 32);
                 matches[offsets[r] + atomicSub(&counts[r], 1u) - 1] = u32(pair);
             });
}
