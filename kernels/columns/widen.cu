// Casts that neither fail nor turn a value into NULL: narrow values are transferred, and widened on the device. CPU
// counterpart: arrow's cast.
#include "shared/common.cuh"
#include "shared/tile.cuh"

// `out[i] = wide(values[i])`. Bound: bytes, one value read and 8 or 16 bytes written a row. Launch: blocks of 256, a
// block for each 1024 rows.
#define WIDEN(name, From, To, wide)                                                                           \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                       \
        widen_##name(const From* __restrict__ values, To* __restrict__ out, u32 n) {                          \
        each_row(n, [=](u32 i) { return values[i]; }, [=](u32 i, From value) { out[i] = wide(value); });      \
    }

template <typename From>
__device__ __forceinline__ i64 to_integer(From value) {
    return (i64)value;
}

// Sign-extended to 128 bits.
template <typename From>
__device__ __forceinline__ i128 to_decimal(From value) {
    return (i128)value;
}

// Rounded to nearest, ties to even.
template <typename From>
__device__ __forceinline__ f64 to_float(From value) {
    return (f64)value;
}

// The bits of the double with the same value; a NaN keeps its sign and payload, and becomes quiet, as on the host.
__device__ __forceinline__ u64 to_double_bits(u32 bits) {
    const u64 sign = (u64)(bits >> 31) << 63;
    const u64 mantissa = bits & 0x7FFFFFu;
    const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    const u64 nan = sign | 0x7FF8ull << 48 | mantissa << 29;
    return is_nan ? nan : (u64)__double_as_longlong((f64)__uint_as_float(bits));
}

WIDEN(i8_i64, i8, i64, to_integer)
WIDEN(i16_i64, i16, i64, to_integer)
WIDEN(i32_i64, i32, i64, to_integer)
WIDEN(u8_i64, u8, i64, to_integer)
WIDEN(u16_i64, u16, i64, to_integer)
WIDEN(u32_i64, u32, i64, to_integer)
WIDEN(i32_i128, i32, i128, to_decimal)
WIDEN(i64_i128, i64, i128, to_decimal)
WIDEN(i8_f64, i8, f64, to_float)
WIDEN(i16_f64, i16, f64, to_float)
WIDEN(i32_f64, i32, f64, to_float)
WIDEN(i64_f64, i64, f64, to_float)
WIDEN(u8_f64, u8, f64, to_float)
WIDEN(u16_f64, u16, f64, to_float)
WIDEN(u32_f64, u32, f64, to_float)
WIDEN(u64_f64, u64, f64, to_float)
WIDEN(f32_f64, u32, u64, to_double_bits)
