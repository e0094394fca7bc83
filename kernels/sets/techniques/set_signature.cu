// Signatures of sets, and the join that tests all pairs of them within windows of size.
#include "sets/techniques/set_signature.cuh"
#include "sets/techniques/set_signature_tiles.cuh"

// TEAM: lanes that share a set. TEAMS: sets of a block. LONG_SET: elements from which on the whole block processes a
// set. ROUND: elements of such a set in each of the block's rounds.
constexpr u32 TEAM = 8;
constexpr u32 TEAMS = BLOCK / TEAM;
constexpr u32 LONG_SET = 1024;
constexpr u32 ROUND = 16 * BLOCK;
constexpr u32 MOST_WORDS = 16;

// Signatures of `words` 32-bit words (2, 4, 8 or 16) for all sets, one after another.
// Bound: 4 bytes an element and offset read, the signatures written; a shared-memory atomic an element. Launch: 256
// threads, a block for each 32 sets.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_signature_build(const __grid_constant__ Sets sets, u32 words, u32* __restrict__ signatures) {
    __shared__ u32 built[TEAMS * MOST_WORDS];
    __shared__ u32 seen[MOST_WORDS];
    __shared__ u32 long_sets[TEAMS];
    __shared__ u32 long_count;
    const u32 log_bits = 36 - __clz(words);
    for (u32 i = threadIdx.x; i < TEAMS * words; i += BLOCK) {
        built[i] = 0;
    }
    if (threadIdx.x == 0) {
        long_count = 0;
    }
    __syncthreads();

    const u32 first = blockIdx.x * TEAMS;
    const auto add = [&](u32 team, u32 element) {
        const u32 bit = signature_bit(element, log_bits);
        atomicOr(&built[team * words + bit / 32], 1u << bit % 32);
    };
    const u32 team = threadIdx.x / TEAM;
    if (first + team < sets.n) {
        const u32 begin = sets.offsets[first + team];
        const u32 end = sets.offsets[first + team + 1];
        if (end - begin < LONG_SET) {
            for (u32 i = begin + threadIdx.x % TEAM; i < end; i += TEAM) {
                add(team, sets.elements[i]);
            }
        } else if (threadIdx.x % TEAM == 0) {
            long_sets[atomicAdd(&long_count, 1u)] = team;
        }
    }
    __syncthreads();
    // A long set soon has all its bits: a test against the bits of earlier rounds saves thousands of atomics on few
    // words.
    for (u32 k = 0; k < long_count; k++) {
        const u32 owner = long_sets[k];
        const u32 end = sets.offsets[first + owner + 1];
        for (u32 begin = sets.offsets[first + owner]; begin < end; begin += ROUND) {
            if (threadIdx.x < words) {
                seen[threadIdx.x] = built[owner * words + threadIdx.x];
            }
            __syncthreads();
#pragma unroll 4
            for (u32 i = begin + threadIdx.x; i < min(begin + ROUND, end); i += BLOCK) {
                const u32 element = sets.elements[i];
                const u32 bit = signature_bit(element, log_bits);
                if ((seen[bit / 32] >> bit % 32 & 1) == 0) {
                    add(owner, element);
                }
            }
            __syncthreads();
        }
    }
    for (u32 i = threadIdx.x; i < min(TEAMS, sets.n - first) * words; i += BLOCK) {
        signatures[u64(first) * words + i] = built[i];
    }
}

// The matches of all probe sets, each within its window lo .. hi of build sets (set_matches_windows). `contained`: the
// measure is CONTAINED; `contains`: CONTAINS; `similar`: any. Signatures are aligned to 16 bytes.
// Bound: a pair of a strip's probe set and the strip's window takes a logic instruction for each 32 bits and half of
// one to combine results, 64 a cycle and multiprocessor: 132 x 64 x 1.755 GHz / 2.5 = 5.9 T pairs/s at 64 bits.
// `similar` also counts bits, 16 words a cycle: 1.9, 1.2, 0.6, 0.3 T pairs/s at 64, 128, 256, 512 bits.
// Launch: 256 threads, grid (a block for each 2048, 2048, 1024, 512 probe sets with 64, 128, 256, 512 bits; slices of
// the build sets): enough slices for 16 blocks a multiprocessor, each of at least 8192 build sets of 64 bits, 1024 of
// 512.
#define TILES(name, reject, bits)                                                                                    \
    extern "C" __global__ void __launch_bounds__(BLOCK, 2) set_signature_##name##_##bits(                               \
        const __grid_constant__ Join join, const u32* __restrict__ probe_signatures,                                 \
        const u32* __restrict__ build_signatures, const u32* __restrict__ lo, const u32* __restrict__ hi) {          \
        test_signatures<Reject::reject, bits / 32>(join, probe_signatures, build_signatures, lo, hi);                \
    }

#define ALL_TILES(name, reject) \
    TILES(name, reject, 64)     \
    TILES(name, reject, 128)    \
    TILES(name, reject, 256)    \
    TILES(name, reject, 512)

ALL_TILES(contained, OUTSIDE)
ALL_TILES(contains, UNCOVERED)
ALL_TILES(similar, DISTANT)
