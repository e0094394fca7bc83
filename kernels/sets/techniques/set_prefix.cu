// The prefix filter (PPJoin: [B] 4.1.2; on a GPU fgSSJoin, 5.1.1, without its counters of all pairs): two sets that
// match share one of their rarest elements, so the inverted lists of these are enough; candidates are filtered by size
// and by position, and then verified.
//
// A pair is a candidate by each element in both prefixes. Only its first common element emits it, so no record of
// candidates is needed.
#include "sets/set_candidates.cuh"
#include "sets/techniques/set_signature.cuh"

// The prefix length, in rarest elements, of a set that must share `least` of its `length` elements.
__device__ __forceinline__ u32 prefix_length(u32 length, u32 least) {
    return length < least ? 0 : length - max(least, 1u) + 1;
}

// The prefixes of probe sets. The least overlap of a match is that with the shortest set of their window lo .. hi
// (set_matches_windows). Elements that the build side lacks are the rarest: they are in the prefix and need no look-up.
// Bound: 20 bytes a set. Launch: 256 threads, a thread for each set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_prefix_probe(const __grid_constant__ Sets probe, const u32* __restrict__ build_sizes,
                 const __grid_constant__ Measure measure, const u32* __restrict__ lo, const u32* __restrict__ hi,
                 u32* __restrict__ lengths) {
    const u32 r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= probe.n) {
        return;
    }
    const u32 shortest = lo[r];
    lengths[r] = shortest < hi[r] ? prefix_length(probe.length(r), measure.need(probe.sizes[r], build_sizes[shortest])) : 0;
}

// The prefixes of build sets. The least overlap of a match is that with the shortest set that may match at all.
// Bound: 8 bytes and log2 of its size in tests of the measure a set. Launch: 256 threads, a thread for each set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_prefix_build(const __grid_constant__ Sets build, const __grid_constant__ Measure measure, u32* __restrict__ lengths) {
    const u32 s = blockIdx.x * BLOCK + threadIdx.x;
    if (s >= build.n) {
        return;
    }
    const u32 size = build.sizes[s];
    const u32 shortest = partition_point(1, max(size, 1u), [&](u32 a) { return !measure.may_pass(a, a, size); });
    lengths[s] = prefix_length(size, measure.need(shortest, size));
}

// The elements of all probe sets' prefixes, one after another: `offsets` are the exclusive sums of the prefix lengths,
// `sets` the set of each element.
struct Prefixes {
    const u64* offsets;
    const u32* sets;

    __device__ __forceinline__ u32 place(u32 entry, u32 set) const { return u32(entry - offsets[set]); }
};

// For each of n prefix elements the part of its list with sets in the probe set's window.
// Bound: twice log2 of a list's length in dependent reads. Launch: 256 threads, a thread for each element.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_prefix_ranges(const __grid_constant__ Sets probe, const __grid_constant__ Prefixes prefixes, u32 n,
                  const u32* __restrict__ list_offsets, const u32* __restrict__ lists, const u32* __restrict__ lo,
                  const u32* __restrict__ hi, u32* __restrict__ starts, u32* __restrict__ counts) {
    const u32 entry = blockIdx.x * BLOCK + threadIdx.x;
    if (entry >= n) {
        return;
    }
    const u32 r = prefixes.sets[entry];
    const u32 element = probe.of(r)[prefixes.place(entry, r)];
    const u32 from = lo[r], to = hi[r];
    const u32 end = list_offsets[element + 1];
    const u32 begin = partition_point(list_offsets[element], end, [&](u32 at) { return lists[at] < from; });
    starts[entry] = begin;
    counts[entry] = partition_point(begin, end, [&](u32 at) { return lists[at] < to; }) - begin;
}

// Tests candidates, with signatures of 64-bit words unless there are none (0).
template <u32 WORDS>
__device__ __forceinline__ void test_prefixes(const Probes& probes, const Join& join, const u32* __restrict__ lists,
                                              const u32* __restrict__ places, const Prefixes& prefixes,
                                              const u64* __restrict__ probe_signatures,
                                              const u64* __restrict__ build_signatures) {
    test_candidates(probes, join, [&](u32 entry, u32 at, Candidate& candidate) {
        const u32 r = prefixes.sets[entry];
        const u32 s = lists[at];
        const u32 i = prefixes.place(entry, r);
        candidate = {r, s, join.probe.of(r)[i]};
        // Positional filter: if this is the first common element, only elements after it can be common as well.
        const u32 most = min(join.probe.length(r) - i, join.build.length(s) - places[at]);
        const bool survives = join.measure.may_pass(most, join.probe.sizes[r], join.build.sizes[s]);
        if constexpr (WORDS == 0) {
            return survives;
        } else {
            if (!survives) {
                return false;
            }
            const Signature<WORDS> of_r(probe_signatures, r), of_s(build_signatures, s);
            const u32 shared = min(join.probe.length(r) - of_r.bits_without(of_s),
                                   join.build.length(s) - of_s.bits_without(of_r));
            return join.measure.may_pass(min(most, shared), join.probe.sizes[r], join.build.sizes[s]);
        }
    });
}

// The matches among candidates: `places[at]` is the position, in its set, of the element of list position `at`.
// `probes` are the prefix elements, numbered by the exclusive sums of set_prefix_ranges' counts.
// Bound: 8 bytes, a read of the build set's size and offsets at random and some 60 instructions a candidate; two sets
// read a survivor. Launch: 256 threads, a grid of any size: a block for each 4092 of the candidates and probes, at most
// 4 a multiprocessor.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_prefix_test(const __grid_constant__ Probes probes, const __grid_constant__ Join join, const u32* __restrict__ lists,
                const u32* __restrict__ places, const __grid_constant__ Prefixes prefixes) {
    test_prefixes<0>(probes, join, lists, places, prefixes, nullptr, nullptr);
}

// The same with a bitmap filter ([B] 4.1.2) before verification: signatures are those of set_signature_build with the
// number of bits in the kernel's name.
// Bound: a random read of a signature more for each candidate that the positional filter lets through, and two sets a
// survivor. Launch: as above.
#define PREFIX_TEST(name, words)                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK) set_prefix_test_##name(                                       \
        const __grid_constant__ Probes probes, const __grid_constant__ Join join, const u32* __restrict__ lists,      \
        const u32* __restrict__ places, const __grid_constant__ Prefixes prefixes,                                    \
        const u64* __restrict__ probe_signatures, const u64* __restrict__ build_signatures) {                         \
        test_prefixes<words>(probes, join, lists, places, prefixes, probe_signatures, build_signatures);              \
    }

PREFIX_TEST(128, 2)
PREFIX_TEST(256, 4)
