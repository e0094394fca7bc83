// Whether each row's value of a key column equals that of its group's first row. If all do, groups by other keys are
// groups by this column too.
#include "columns/text_bytes.cuh"
#include "shared/tile.cuh"

// Calls `same(i, first)` for every row and the first row of its group, until some row differs, possibly in another
// column.
template <typename Same>
__device__ __forceinline__ void verify(const u32* ids, const u32* firsts, const u32* valid, u32 n, u32* differ, Same same) {
    const volatile u32* const known = differ;
    for (u32 tile = blockIdx.x; tile < (n + TILE - 1) / TILE && *known == 0; tile += gridDim.x) {
        each_row_of_tile(
            tile, n,
            [=](u32 i) {
                const u32 first = firsts[ids[i]];
                const bool here = bit_at(valid, i);
                return here == bit_at(valid, first) && (!here || i == first || same(i, first));
            },
            [=](u32, bool is_same) {
                if (!is_same) {
                    *differ = 1;
                }
            });
    }
}

__device__ __forceinline__ bool same_unit(uint4 a, uint4 b) {
    return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

template <typename T>
__device__ __forceinline__ bool same_unit(T a, T b) {
    return a == b;
}

// group_verify_units*: `differ` becomes 1 if a row's value of `units` units, or its NULL state (`valid` may be null),
// differs from that of row firsts[ids[i]]. Bound: 4 bytes and a value a row read, and those of the first rows at
// random. Launch: blocks of 256, a grid of any size (8 blocks a multiprocessor); `differ` is zeroed first.
#define VERIFY(bits, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                              \
        group_verify_units##bits(const T* __restrict__ values, u32 units, const u32* __restrict__ valid,             \
                                 const u32* __restrict__ ids, const u32* __restrict__ firsts, u32 n, u32* differ) {  \
        verify(ids, firsts, valid, n, differ, [=](u32 i, u32 first) {                                                \
            const T* const a = values + (u64)i * units;                                                              \
            const T* const b = values + (u64)first * units;                                                          \
            bool same = true;                                                                                        \
            for (u32 k = 0; k < units; k++) {                                                                        \
                same &= same_unit(a[k], b[k]);                                                                       \
            }                                                                                                        \
            return same;                                                                                             \
        });                                                                                                          \
    }

VERIFY(8, u8)
VERIFY(16, u16)
VERIFY(32, u32)
VERIFY(64, u64)
VERIFY(128, uint4)

// The same for text. A thread compares a whole value, so none should be very long. Bound: two offsets and the bytes of
// a value a row read, and those of the first rows at random.
extern "C" __global__ void __launch_bounds__(BLOCK)
    group_verify_text(const u32* __restrict__ offsets, const u32* __restrict__ bytes, const u32* __restrict__ valid,
                      const u32* __restrict__ ids, const u32* __restrict__ firsts, u32 n, u32* differ) {
    verify(ids, firsts, valid, n, differ, [=](u32 i, u32 first) {
        const u32 a = offsets[i];
        const u32 b = offsets[first];
        const u32 length = offsets[i + 1] - a;
        bool same = length == offsets[first + 1] - b;
        for (u32 k = 0; same && k < length; k += 16) {
            const u32 count = min(length - k, 16u);
            same = load_bytes(bytes, a + k, count) == load_bytes(bytes, b + k, count);
        }
        return same;
    });
}
