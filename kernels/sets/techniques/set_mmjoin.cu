// MMJoin on any card from Turing on, with products of bytes; and what is known of light elements beforehand.
#include "sets/techniques/set_mmjoin.cuh"

MMJOIN(bytes, ByBytes)

// The number of each set's light elements, those below `first_heavy`, and their signature.
// Bound: a search in each set, and its light elements read. Launch: 256 threads, a thread for each set.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_mmjoin_light(const __grid_constant__ Sets sets, u32 first_heavy, u32* __restrict__ counts, u64* __restrict__ signatures) {
    const u32 set = blockIdx.x * BLOCK + threadIdx.x;
    if (set >= sets.n) {
        return;
    }
    const u32* const elements = sets.of(set);
    const u32 count = partition_point(0, sets.length(set), [&](u32 i) { return elements[i] < first_heavy; });
    u64 words[LIGHT_WORDS] = {};
    for (u32 i = 0; i < count; i++) {
        const u32 bit = signature_bit(elements[i], 7);
        words[bit / 64] |= u64(1) << bit % 64;
    }
    static_assert(LIGHT_WORDS == 2, "signatures have 2^7 bits");
    counts[set] = count;
    *reinterpret_cast<ulonglong2*>(signatures + u64(set) * LIGHT_WORDS) = make_ulonglong2(words[0], words[1]);
}

// Numbers of heavy elements that are compared: 512, 1024, …
constexpr u32 HEAVY_CHOICES = 6;
constexpr u32 LEAST_HEAVY = 512;

// Of `samples` pairs, spread evenly over the `total` pairs in windows, how many each choice of heavy elements lets through, and the light elements of
// these. `offsets` are the scanned numbers of pairs of each probe set. passes[k] and passes[HEAVY_CHOICES + k] are 0 first.
// Bound: a merge of two sets a pair. Launch: 256 threads, a thread for each pair.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_mmjoin_sample(const __grid_constant__ Sets probe, const __grid_constant__ Sets build, const __grid_constant__ Measure measure,
                  const u32* __restrict__ lo, const u64* __restrict__ offsets, u64 total, u32 samples, u32 universe, u64* __restrict__ passes) {
    const u32 sample = blockIdx.x * BLOCK + threadIdx.x;
    if (sample >= samples) {
        return;
    }
    const u64 pair = u64(u128(total) * sample / samples);
    const u32 r = partition_point(0, probe.n - 1, [&](u32 set) { return offsets[set + 1] <= pair; });
    const u32 s = lo[r] + u32(pair - offsets[r]);
    const u32* const of_r = probe.of(r);
    const u32* const of_s = build.of(s);
    const u32 need = measure.need(probe.sizes[r], build.sizes[s]);
    // From the most frequent element on.
    u32 i = probe.length(r), j = build.length(s), heavy = 0;
    for (u32 k = 0; k < HEAVY_CHOICES; k++) {
        const u32 first = universe - min(universe, LEAST_HEAVY << k);
        while (true) {
            const bool has_r = i > 0 && of_r[i - 1] >= first, has_s = j > 0 && of_s[j - 1] >= first;
            if (!has_r || !has_s) {
                break;
            }
            const u32 x = of_r[i - 1], y = of_s[j - 1];
            heavy += x == y;
            i -= x >= y;
            j -= y >= x;
        }
        while (i > 0 && of_r[i - 1] >= first) {
            i--;
        }
        while (j > 0 && of_s[j - 1] >= first) {
            j--;
        }
        if (heavy + min(i, j) >= need) {
            atomicAdd(&passes[k], 1ull);
            atomicAdd(&passes[HEAVY_CHOICES + k], u64(i + j));
        }
    }
}
