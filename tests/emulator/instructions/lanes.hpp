// How instructions see the 32 lanes of a row, and the operations on one, two and three of them.
#pragma once
#include "machine.hpp"
#include "ptx/opcode.hpp"
#include <type_traits>

template <class T> inline T get(u64 bits) {
    if constexpr (std::is_same_v<T, float>) {
        float f;
        u32 low = (u32)bits;
        memcpy(&f, &low, 4);
        return f;
    } else if constexpr (std::is_same_v<T, double>) {
        double d;
        memcpy(&d, &bits, 8);
        return d;
    } else {
        return (T)bits;
    }
}
template <class T> inline u64 put(T value) {
    if constexpr (std::is_same_v<T, float>) {
        u32 bits;
        memcpy(&bits, &value, 4);
        return bits;
    } else if constexpr (std::is_same_v<T, double>) {
        u64 bits;
        memcpy(&bits, &value, 8);
        return bits;
    } else if constexpr (std::is_same_v<T, bool>) {
        return value;
    } else {
        return (u64)(std::make_unsigned_t<T>)value;
    }
}

template <class F> inline void lanes(u32 mask, F f) {
    if (mask == ~0u)
        for (int l = 0; l < 32; l++) f(l);
    else
        for (u32 m = mask; m; m &= m - 1) f(__builtin_ctz(m));
}

template <class T, class Op> void unary(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = put<T>(Op::of(get<T>(a[l]))); });
}
template <class T, class Op> void binary(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = put<T>(Op::of(get<T>(a[l]), get<T>(b[l]))); });
}
template <class T, class Op> void ternary(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = put<T>(Op::of(get<T>(a[l]), get<T>(b[l]), get<T>(c[l]))); });
}

#define BY_INT(OPERATION, OP)                                                                                                    \
    switch (type) {                                                                                                              \
    case Ty::U16:                                                                                                                \
    case Ty::B16: return OPERATION<u16, OP>;                                                                                     \
    case Ty::S16: return OPERATION<i16, OP>;                                                                                     \
    case Ty::U32:                                                                                                                \
    case Ty::B32: return OPERATION<u32, OP>;                                                                                     \
    case Ty::S32: return OPERATION<i32, OP>;                                                                                     \
    case Ty::U64:                                                                                                                \
    case Ty::B64: return OPERATION<u64, OP>;                                                                                     \
    case Ty::S64: return OPERATION<i64, OP>;                                                                                     \
    default: break;                                                                                                              \
    }
#define BY_FLOAT(OPERATION, OP)                                                                                                  \
    switch (type) {                                                                                                              \
    case Ty::F32: return OPERATION<float, OP>;                                                                                   \
    case Ty::F64: return OPERATION<double, OP>;                                                                                  \
    default: break;                                                                                                              \
    }
#define BY_BITS(OPERATION, OP)                                                                                                   \
    switch (type) {                                                                                                              \
    case Ty::Pred: return OPERATION<bool, OP>;                                                                                   \
    case Ty::U16:                                                                                                                \
    case Ty::B16:                                                                                                                \
    case Ty::S16: return OPERATION<u16, OP>;                                                                                     \
    case Ty::U32:                                                                                                                \
    case Ty::B32:                                                                                                                \
    case Ty::S32: return OPERATION<u32, OP>;                                                                                     \
    case Ty::U64:                                                                                                                \
    case Ty::B64:                                                                                                                \
    case Ty::S64: return OPERATION<u64, OP>;                                                                                     \
    default: break;                                                                                                              \
    }
