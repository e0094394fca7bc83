// The product of two inputs: pair `p` is of row `p / rows` of the one and of row `p % rows` of the other. No row numbers are written.
// Twin: the ids that device/host/theta/expand.rs makes of ranges that hold all rows, gathered.
#include "shared/common.cuh"
#include "shared/tile.cuh"

// Vectors of 16 bytes that a thread writes, a block's 256 between them.
constexpr u32 VECTORS = 4;

// Values of the pairs `from .. from + n`: of row `quotient` of the one, `rest` of the other is the first. Their rows are counted on,
// so only a vector's first one is divided.
template <bool REPEATED, typename T>
__device__ __forceinline__ void product(const T* __restrict__ values, u32 rows, u32 quotient, u32 rest, T* __restrict__ out, u32 n) {
    constexpr u32 EACH = 16 / sizeof(T);
    union Vector {
        uint4 whole;
        T each[EACH];
    };
#pragma unroll
    for (u32 k = 0; k < VECTORS; k++) {
        const u32 i = ((blockIdx.x * VECTORS + k) * BLOCK + threadIdx.x) * EACH;
        if (i >= n) {
            return;
        }
        const u32 place = rest + i;
        u32 one = quotient + place / rows;
        u32 other = place % rows;
        Vector vector;
#pragma unroll
        for (u32 j = 0; j < EACH; j++) {
            vector.each[j] = values[REPEATED ? one : other];
            // Past the end the last value is read again.
            const bool on = i + j + 1 < n;
            const bool next = other + 1 == rows;
            one += on && next ? 1 : 0;
            other = !on ? other : next ? 0 : other + 1;
        }
        __stcs(reinterpret_cast<uint4*>(out + i), vector.whole);
    }
}

// `out[i]` is the value of pair `from + i`, where `from` is `quotient * rows + rest`: repeated for all rows of the other input, or
// those one after the other, again and again. `rest + n` is below 2^32. Bound: one value written a pair; the input is read from cache.
// Blocks of 256, a block writes 16 KiB; `out` is aligned to 16 bytes and has room for whole vectors.
#define PRODUCT(bits, T)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(BLOCK) product_repeated##bits(                                            \
        const T* __restrict__ values, u32 rows, u32 quotient, u32 rest, T* __restrict__ out, u32 n) {                      \
        product<true>(values, rows, quotient, rest, out, n);                                                               \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK) product_again##bits(                                               \
        const T* __restrict__ values, u32 rows, u32 quotient, u32 rest, T* __restrict__ out, u32 n) {                      \
        product<false>(values, rows, quotient, rest, out, n);                                                              \
    }

PRODUCT(8, u8)
PRODUCT(16, u16)
PRODUCT(32, u32)
PRODUCT(64, u64)
PRODUCT(128, uint4)
