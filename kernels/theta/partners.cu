// The part of each range of partners that its probe row keeps: the first, the last, or the nearest ones. Build keys ascend
// inside of each range, so that what is kept is one range, too.
#include "shared/search.cuh"

// Which partners are kept; the same codes as in src/device/cuda/theta/partners.rs.
constexpr u32 LAST = 1;
constexpr u32 NEAREST_INTEGERS = 2;
constexpr u32 NEAREST_FLOATS = 3;

// The value of the order key of an f64.
__device__ __forceinline__ f64 float_of(u64 word) {
    constexpr u64 sign = 1ull << 63;
    return __longlong_as_double((long long)((word & sign) == 0 ? ~word : word ^ sign));
}

// The distance of a key from `centre`, as a word that compares like it: distances of floats are not negative, so that
// their bits ascend.
__device__ __forceinline__ u64 distance(u32 which, u64 centre, u64 key) {
    if (which == NEAREST_FLOATS) {
        return (u64)__double_as_longlong(fabs(float_of(key) - float_of(centre)));
    }
    return key < centre ? centre - key : key - centre;
}

// What a row keeps of `lo .. hi`, which has more than `most` positions.
__device__ __forceinline__ uint2 kept(const u64* __restrict__ keys, u32 lo, u32 hi, u32 which, u32 most, bool ties,
                                      bool centred, u64 centre) {
    if (which == LAST) {
        const u32 from = hi - most;
        const u64 last = keys[from];
        return make_uint2(ties ? partition_point(lo, from, [&](u32 i) { return keys[i] < last; }) : from, hi);
    }
    if (which >= NEAREST_INTEGERS && centred) {
        const u32 behind = partition_point(lo, hi, [&](u32 i) { return keys[i] < centre; });
        const u32 least = behind - lo > most ? behind - most : lo;
        const u32 greatest = min(behind, hi - most);
        const u32 from = partition_point(least, greatest, [&](u32 i) {
            return distance(which, centre, keys[i]) > distance(which, centre, keys[i + most]);
        });
        const u32 to = from + most;
        if (!ties) {
            return make_uint2(from, to);
        }
        const u64 farthest = max(distance(which, centre, keys[from]), distance(which, centre, keys[to - 1]));
        return make_uint2(
            partition_point(lo, from, [&](u32 i) { return distance(which, centre, keys[i]) > farthest; }),
            partition_point(to, hi, [&](u32 i) { return distance(which, centre, keys[i]) <= farthest; }));
    }
    // All partners are equally far from a row without a centre.
    if (which >= NEAREST_INTEGERS && ties) {
        return make_uint2(lo, hi);
    }
    const u32 to = lo + most;
    const u64 last = keys[to - 1];
    return make_uint2(lo, ties ? partition_point(to, hi, [&](u32 i) { return keys[i] <= last; }) : to);
}

// Cuts the range of each probe position. `centres` and `valid`, the probe side's keys of the nearest partners, are by
// probe row.
// Bound: 16 bytes a position; binary searches with random reads for the nearest ones and for ties. Launch: 256 threads,
// a block for each 1024 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
partners_limit(const u64* __restrict__ keys, const u32* __restrict__ probe_rows, const u64* __restrict__ centres,
               const u32* __restrict__ valid, const u32* __restrict__ lo, const u32* __restrict__ hi, u32 which,
               u32 most, u32 ties, u32* __restrict__ out_lo, u32* __restrict__ out_hi, u32 m) {
    each_row(
        m, [&](u32 i) { return make_uint2(lo[i], hi[i]); },
        [&](u32 i, uint2 range) {
            if (range.y - range.x > most) {
                const bool near = which >= NEAREST_INTEGERS && centres != nullptr;
                const u32 row = near ? probe_rows[i] : 0;
                const bool centred = near && bit_at(valid, row);
                range = kept(keys, range.x, range.y, which, most, ties != 0, centred, centred ? centres[row] : 0);
            }
            out_lo[i] = range.x;
            out_hi[i] = range.y;
        });
}
