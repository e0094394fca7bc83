// Windows of consecutive characters of text values: where each begins, and how many bytes it has. `text_gather` copies them. CPU
// counterpart: src/device/host/expr/shingles.rs.
#include "columns/text_value.cuh"
#include "shared/tile.cuh"

// The bytes of `word` that continue a UTF-8 character.
__device__ __forceinline__ u32 continued(u64 word) { return __popcll(word & ~(word << 1) & 0x8080808080808080ull); }

// The characters of a whole value.
__device__ __forceinline__ u32 characters(const Value& value) {
    u32 count = value.length;
    for (u32 i = 0; i < value.length; i += 16) {
        const u128 word = load_bytes(value.base, value.at + i, min(value.length - i, 16u));
        count -= continued((u64)word) + continued((u64)(word >> 64));
    }
    return count;
}

// The number of windows of `length` characters of each value: one of a value with fewer, none of an empty one or a NULL. `valid` may be
// null. Bound: 8 bytes and the value read, 4 written a row. Launch: blocks of 256, a block for each 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_shingles_counts(const u32* __restrict__ offsets, const u32* __restrict__ bytes, const u32* __restrict__ valid, u32 length,
                         u32* __restrict__ counts, u32 n) {
    const Bytes values{offsets, bytes};
    each_row(
        n,
        [=](u32 i) {
            const Value value = values.value(i);
            if (value.length == 0 || !bit_at(valid, i)) {
                return 0u;
            }
            const u32 count = characters(value);
            return count < length ? 1u : count - length + 1;
        },
        [=](u32 i, u32 count) { counts[i] = count; });
}

// The first byte and the number of bytes of each window, value by value: those of value i are begins[i] .. begins[i + 1]. A warp writes
// the windows of a value of one-byte characters together; of others its first thread does. Bound: 8 bytes written a window. Launch:
// blocks of 256, a warp for each value.
extern "C" __global__ void __launch_bounds__(BLOCK)
    text_shingles_spans(const u32* __restrict__ offsets, const u32* __restrict__ bytes, const u32* __restrict__ begins, u32 length,
                        u32* __restrict__ starts, u32* __restrict__ lengths, u32 n) {
    const u32 i = blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    const u32 lane = threadIdx.x % WARP;
    if (i >= n) {
        return;
    }
    const Value value = Bytes{offsets, bytes}.value(i);
    const u32 begin = begins[i], count = begins[i + 1] - begin;
    if (count <= 1 || count == value.length - length + 1) {
        const u32 width = count <= 1 ? value.length : length;
        for (u32 k = lane; k < count; k += WARP) {
            starts[begin + k] = value.at + k;
            lengths[begin + k] = width;
        }
        return;
    }
    if (lane != 0) {
        return;
    }
    u32 from = 0, to = 0;
    walk(value, &to, length);
    for (u32 k = 0; k < count; k++) {
        starts[begin + k] = value.at + from;
        lengths[begin + k] = to - from;
        from += width_of(value.byte(from));
        to += to < value.length ? width_of(value.byte(to)) : 0;
    }
}
