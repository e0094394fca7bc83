// Containment by the rarest element: a set that contains another one is in the inverted list of that one's rarest
// element. The sets of the list are filtered by size (lists ascend by size) and by signatures, then verified.
#include "sets/set_candidates.cuh"
#include "sets/techniques/set_signature.cuh"

// For each probe set the beginning of its candidates in the lists, and their number. The list of element e is
// lists[list_offsets[e] .. list_offsets[e + 1]], sets by ascending size. A set with an element that the build side
// lacks has no candidates, nor has an empty one, which every set contains. `half` is not 0 in a self-join: of sets of
// the same size only those from the set itself on are candidates.
// Bound: log2 of a list's length in dependent reads of a set and its size. Launch: 256 threads, a thread for each probe
// set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_rarest_ranges(const __grid_constant__ Sets probe, const u32* __restrict__ list_offsets, const u32* __restrict__ lists,
                  const u32* __restrict__ build_sizes, u32 half, u32* __restrict__ starts, u32* __restrict__ counts) {
    const u32 r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= probe.n) {
        return;
    }
    const u32 size = probe.sizes[r];
    u32 begin = 0, end = 0;
    if (size != 0 && probe.length(r) == size) {
        const u32 rarest = probe.of(r)[0];
        end = list_offsets[rarest + 1];
        begin = partition_point(list_offsets[rarest], end,
                                [&](u32 at) { return half != 0 ? lists[at] < r : build_sizes[lists[at]] < size; });
    }
    starts[r] = begin;
    counts[r] = end - begin;
}

// Tests candidates by signatures of 64-bit words.
template <u32 WORDS>
__device__ __forceinline__ void test_rarest(const Probes& probes, const Join& join, const u32* __restrict__ lists,
                                            const u64* __restrict__ probe_signatures,
                                            const u64* __restrict__ build_signatures) {
    test_candidates(probes, join, [&](u32 r, u32 at, Candidate& candidate) {
        const u32 s = lists[at];
        candidate = {r, s, NONE};
        return Signature<WORDS>(probe_signatures, r).lies_in(Signature<WORDS>(build_signatures, s));
    });
}

// The matches among candidates of containment; `join.measure` is CONTAINED, signatures are those of set_signature_build
// with the number of bits in the kernel's name. Candidates are numbered by the exclusive sums of set_rarest_ranges'
// counts.
// Bound: 4 bytes and a random read of a signature a candidate, about 36 G/s up to 256 bits; two sets read a survivor.
// Launch: 256 threads, a grid of any size: a block for each 4092 of the candidates and probes, at most 4 a
// multiprocessor.
#define RAREST(name, words)                                                                                          \
    extern "C" __global__ void __launch_bounds__(BLOCK) set_rarest_##name(                                           \
        const __grid_constant__ Probes probes, const __grid_constant__ Join join, const u32* __restrict__ lists,     \
        const u64* __restrict__ probe_signatures, const u64* __restrict__ build_signatures) {                        \
        test_rarest<words>(probes, join, lists, probe_signatures, build_signatures);                                 \
    }

RAREST(64, 1)
RAREST(128, 2)
RAREST(256, 4)

// The number of a probe set's elements that are looked up before the candidate is verified.
constexpr u32 LOOKED_FOR = 16;

// The same if a signature would have nearly all its bits set: build sets are rows of bits (set_bitmap_build with this
// mask), in which the next rarest elements of the probe set are looked up one after the other. A row as wide as the
// universe is exact.
// Bound: 4 bytes and a little more than one random read of 4 bytes a candidate, about 30 G/s, as most lack the second
// element; two sets read a survivor. Launch: as above.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_rarest_rows(const __grid_constant__ Probes probes, const __grid_constant__ Join join, const u32* __restrict__ lists,
                const u32* __restrict__ rows, u32 words, u32 mask) {
    test_candidates(probes, join, [&](u32 r, u32 at, Candidate& candidate) {
        const u32 s = lists[at];
        candidate = {r, s, NONE};
        const u32* const row = rows + u64(s) * words;
        const u32* const elements = join.probe.of(r);
        const u32 count = min(join.probe.length(r), LOOKED_FOR);
        for (u32 i = 1; i < count; i++) {
            const u32 bit = elements[i] & mask;
            if ((row[bit / 32] >> bit % 32 & 1) == 0) {
                return false;
            }
        }
        return true;
    });
}
