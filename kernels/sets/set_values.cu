// The value of a set function for pairs of rows, by the sets of both sides: what a set join knows of its matches.
#include "sets/set.cuh"

// Of an overlap alone; the codes of degrees are those of `Kind`.
constexpr u32 VALUE_OVERLAP = OVERLAP;

// The value of sets of `a` and `b` elements that share `o`, with the host's rounding (SetMeasure::degree).
__device__ __forceinline__ f64 degree_of(u32 kind, u32 o, u32 a, u32 b) {
    if ((a == 0 && b == 0) || (kind == DEGREE && min(a, b) == 0)) {
        return 1.0;
    }
    if (o == 0) {
        return 0.0;
    }
    const f64 shared = f64(o);
    switch (kind) {
        case JACCARD: return shared / f64(u64(a) + b - o);
        case DICE: return 2.0 * shared / f64(u64(a) + b);
        case COSINE: return shared / sqrt(f64(a) * f64(b));
        default: return shared / f64(min(a, b));
    }
}

// How many elements two ascending sets share: a merge, or searches in the longer one if it is much longer.
__device__ __forceinline__ u32 shared_elements(const u32* a, u32 n, const u32* b, u32 m) {
    if (n > m) {
        const u32* longer = a;
        a = b;
        b = longer;
        const u32 length = n;
        n = m;
        m = length;
    }
    u32 shared = 0;
    if (m / 16 > n) {
        u32 from = 0;
        for (u32 i = 0; i < n; i++) {
            const u32 element = a[i];
            u32 to = m;
            while (from < to) {
                const u32 middle = from + (to - from) / 2;
                if (b[middle] < element) {
                    from = middle + 1;
                } else {
                    to = middle;
                }
            }
            shared += from < m && b[from] == element ? 1 : 0;
        }
        return shared;
    }
    u32 i = 0, j = 0;
    while (i < n && j < m) {
        const u32 x = a[i];
        const u32 y = b[j];
        shared += x == y ? 1 : 0;
        i += x <= y ? 1 : 0;
        j += y <= x ? 1 : 0;
    }
    return shared;
}

// The values of `n` pairs of rows: an i64 each of an overlap, an f64 of a degree. `probe_places` and `build_places` are the
// number of each row's set, counted from 1; that of a row without a set is 0, and its values are NULL in `valid`, which may be a
// null pointer if all rows have a set.
// Bound: the elements of both sets, in sequence, and 28 bytes a pair. Launch: 256 threads, a thread for each pair.
extern "C" __global__ void __launch_bounds__(BLOCK)
set_values(const __grid_constant__ Sets probe, const __grid_constant__ Sets build,
           const u32* __restrict__ probe_places, const u32* __restrict__ build_places,
           const u32* __restrict__ probe_rows, const u32* __restrict__ build_rows, u32 kind, u64* __restrict__ out,
           u32* __restrict__ valid, u32 n) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    const u32 r = i < n ? probe_places[probe_rows[i]] : 0;
    const u32 s = i < n ? build_places[build_rows[i]] : 0;
    const bool has_value = r != 0 && s != 0;
    if (valid != nullptr) {
        const u32 word = __ballot_sync(ALL_LANES, has_value);
        if (threadIdx.x % WARP == 0 && i < n) {
            valid[i / WARP] = word;
        }
    }
    if (i >= n) {
        return;
    }
    u64 value = 0;
    if (has_value) {
        const u32 a = r - 1;
        const u32 b = s - 1;
        const u32 o = shared_elements(probe.of(a), probe.length(a), build.of(b), build.length(b));
        value = kind == VALUE_OVERLAP ? u64(o)
                                      : (u64)__double_as_longlong(degree_of(kind, o, probe.sizes[a], build.sizes[b]));
    }
    out[i] = value;
}
