// The cross product of two inputs: output row `p` combines row `p / rows` of one input with row `p % rows` of the
// other. No row ids are written. CPU counterpart: src/device/host/theta/expand.rs, whose row ids of full ranges are
// gathered.
#include "shared/common.cuh"
#include "shared/tile.cuh"

// Vectors of 16 bytes that a thread writes, 256 apart.
constexpr u32 VECTORS = 4;

// Values of the output rows `from .. from + n`. The first combines row `quotient` of one input with row `rest` of the
// other. Further rows are found by increments, so only the first one of a vector needs a division.
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

// `out[i]` is the value of output row `from + i`, where `from` is `quotient * rows + rest`: product_repeated* repeats
// each value for all rows of the other input, product_again* cycles through the values. `rest + n` is below 2^32.
// Bound: one value written for each output row; the input is read from the cache. Launch: blocks of 256, a block writes
// 16 KiB; `out` is aligned to 16 bytes and allocated in whole vectors.
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
