// A unit: the values of UNIT adjacent rows, loaded by one thread as a vector. Neighbouring lanes load neighbouring
// units, and a thread has two in flight, so that few blocks saturate the memory bandwidth. Memory is allocated in whole
// vectors of 32 bytes: the last unit is always loaded whole, wherever the rows end.
#pragma once

#include "shared/tile.cuh"

constexpr u32 UNIT = 4;
constexpr u32 UNITS = 2;
constexpr u32 UNIT_TILE = BLOCK * UNITS * UNIT;
constexpr u32 ALL_OF_UNIT = (1u << UNIT) - 1;

// Streaming loads: the values are read once and should not displace others from the cache.
__device__ __forceinline__ void load_unit(const u8* from, u8 (&unit)[UNIT]) {
    const uchar4 all = __ldcs(reinterpret_cast<const uchar4*>(from));
    unit[0] = all.x, unit[1] = all.y, unit[2] = all.z, unit[3] = all.w;
}
__device__ __forceinline__ void load_unit(const u16* from, u16 (&unit)[UNIT]) {
    const ushort4 all = __ldcs(reinterpret_cast<const ushort4*>(from));
    unit[0] = all.x, unit[1] = all.y, unit[2] = all.z, unit[3] = all.w;
}
__device__ __forceinline__ void load_unit(const u32* from, u32 (&unit)[UNIT]) {
    const uint4 all = __ldcs(reinterpret_cast<const uint4*>(from));
    unit[0] = all.x, unit[1] = all.y, unit[2] = all.z, unit[3] = all.w;
}
__device__ __forceinline__ void load_unit(const u64* from, u64 (&unit)[UNIT]) {
    const ulonglong2* const halves = reinterpret_cast<const ulonglong2*>(from);
    const ulonglong2 lower = __ldcs(halves);
    const ulonglong2 upper = __ldcs(halves + 1);
    unit[0] = lower.x, unit[1] = lower.y, unit[2] = upper.x, unit[3] = upper.y;
}

// The units of one thread in a tile.
template <typename T>
struct Units {
    T values[UNITS][UNIT];
    // A validity bit for each row. Bits past the end are undefined.
    u32 valid[UNITS];
    // The first row of the first unit.
    u32 first;

    // Past the end the last unit is loaded instead, so that no branch separates the loads.
    __device__ __forceinline__ void load(const T* from, const u32* bits, u32 n, u32 tile) {
        first = tile * UNIT_TILE + (threadIdx.x / WARP * (WARP * UNITS) + threadIdx.x % WARP) * UNIT;
#pragma unroll
        for (u32 k = 0; k < UNITS; k++) {
            const u32 at = min(row(k), (n - 1) / UNIT * UNIT);
            load_unit(from + at, values[k]);
            valid[k] = bits == nullptr ? ALL_OF_UNIT : bits[at / 32] >> (at % 32);
        }
    }

    __device__ __forceinline__ u32 row(u32 k) const { return first + k * (WARP * UNIT); }

    // A bit for each row of a unit that is not past the end.
    __device__ __forceinline__ u32 inside(u32 k, u32 n) const {
        return row(k) >= n ? 0 : row(k) + UNIT <= n ? ALL_OF_UNIT : (1u << (n - row(k))) - 1;
    }
};

// The word type in which numbers of this width are computed.
template <typename T>
struct InWords {
    using Word = u32;
};
template <>
struct InWords<u64> {
    using Word = u64;
};
template <typename T>
using WordOf = typename InWords<T>::Word;

// The minimum and the maximum of a warp's keys, which are values with `sign` flipped.
template <typename T>
struct Extent {
    using Word = WordOf<T>;

    Word least = ~(Word)0;
    Word greatest = 0;

    __device__ __forceinline__ void add(T value, u64 sign) {
        const Word key = (Word)value ^ (Word)sign;
        least = min(least, key);
        greatest = max(greatest, key);
    }

    // Adds the values of a unit whose bit in `there` is set.
    __device__ __forceinline__ void add(const T (&unit)[UNIT], u32 there, u64 sign) {
        if (there == ALL_OF_UNIT) {
#pragma unroll
            for (u32 l = 0; l < UNIT; l++) {
                add(unit[l], sign);
            }
        } else {
#pragma unroll
            for (u32 l = 0; l < UNIT; l++) {
                if ((there >> l & 1u) != 0) {
                    add(unit[l], sign);
                }
            }
        }
    }

    // Merges into the extent of other warps, which is (all ones, 0) while empty.
    __device__ __forceinline__ void join(u64* extent) {
        for (u32 lanes = WARP / 2; lanes > 0; lanes /= 2) {
            least = min(least, __shfl_xor_sync(ALL_LANES, least, lanes));
            greatest = max(greatest, __shfl_xor_sync(ALL_LANES, greatest, lanes));
        }
        // Most warps find no new extreme. Without this test, thousands of atomics would queue at one address.
        const volatile u64* const known = extent;
        if (threadIdx.x % WARP == 0 && least <= greatest) {
            if (least < known[0]) {
                atomicMin(extent, (u64)least);
            }
            if (greatest > known[1]) {
                atomicMax(extent + 1, (u64)greatest);
            }
        }
    }
};
