// Sums, products, quotients, bits and carries.
#include "instructions/lanes.hpp"
#include "instructions/operations.hpp"
#include <cfenv>
#include <cmath>

namespace {

struct Not {
    template <class T> static T of(T a) {
        if constexpr (std::is_same_v<T, bool>)
            return !a;
        else
            return (T)~a;
    }
};
struct Neg {
    template <class T> static T of(T a) {
        if constexpr (std::is_integral_v<T>)
            return (T)(0 - (std::make_unsigned_t<T>)a);
        else
            return -a;
    }
};
struct Abs {
    template <class T> static T of(T a) {
        if constexpr (std::is_integral_v<T>)
            return a < 0 ? (T)(0 - (std::make_unsigned_t<T>)a) : a;
        else
            return std::fabs(a);
    }
};
struct Sqrt {
    template <class T> static T of(T a) { return std::sqrt(a); }
};
struct Rcp {
    template <class T> static T of(T a) { return (T)1 / a; }
};
struct CopySign {
    template <class T> static T of(T a, T b) { return std::copysign(b, a); }
};
struct Move {
    template <class T> static T of(T a) { return a; }
};
struct MulHi {
    template <class T> static T of(T a, T b) {
        if constexpr (sizeof(T) == 8) {
            if constexpr (std::is_signed_v<T>)
                return (T)((__int128)a * b >> 64);
            else
                return (T)((unsigned __int128)a * b >> 64);
        } else {
            if constexpr (std::is_signed_v<T>)
                return (T)((i64)a * b >> (sizeof(T) * 8));
            else
                return (T)((u64)a * b >> (sizeof(T) * 8));
        }
    }
};
struct MadLo {
    template <class T> static T of(T a, T b, T c) { return (T)((u64)a * (u64)b + (u64)c); }
};
struct MadHi {
    template <class T> static T of(T a, T b, T c) { return (T)((u64)MulHi::of(a, b) + (u64)c); }
};
struct Fma {
    template <class T> static T of(T a, T b, T c) { return std::fma(a, b, c); }
};
struct FmaToZero {
    template <class T> static T of(T a, T b, T c) {
        fesetround(FE_TOWARDZERO);
        volatile T x = a, y = b, z = c;
        volatile T r = std::fma(x, y, z);
        fesetround(FE_TONEAREST);
        return r;
    }
};

template <class T, class W> void multiply_wide(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = put<W>((W)((W)get<T>(a[l]) * (W)get<T>(b[l]))); });
}
template <class T, class W> void mad_wide(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = put<W>((W)((u64)(W)((W)get<T>(a[l]) * (W)get<T>(b[l])) + (u64)get<W>(c[l]))); });
}

template <class T> void shift_left(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u32 n = (u32)b[l];
        d[l] = n >= sizeof(T) * 8 ? 0 : put<T>((T)((u64)get<T>(a[l]) << n));
    });
}
template <class T> void shift_right(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u32 n = (u32)b[l];
        T x = get<T>(a[l]);
        if (n >= sizeof(T) * 8)
            d[l] = put<T>(std::is_signed_v<T> && x < 0 ? (T)-1 : (T)0);
        else
            d[l] = put<T>((T)(x >> n));
    });
}
template <bool LEFT, bool WRAP> void funnel(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u32 n = WRAP ? (u32)c[l] & 31 : std::min((u32)c[l], 32u);
        u64 both = (u64)(u32)b[l] << 32 | (u32)a[l];
        d[l] = (u32)(LEFT ? (n ? both >> (32 - n) : (u32)b[l]) : both >> n);
    });
}
template <class T> void popcount(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = __builtin_popcountll((u64)get<T>(a[l])); });
}
template <class T> void leading(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u64 x = get<T>(a[l]);
        d[l] = x ? __builtin_clzll(x) - (64 - sizeof(T) * 8) : sizeof(T) * 8;
    });
}
template <class T, bool SHIFT> void find_bit(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        T y = get<T>(a[l]);
        if constexpr (std::is_signed_v<T>)
            if (y < 0) y = ~y;
        u64 x = (std::make_unsigned_t<T>)y;
        u32 at = x ? 63 - __builtin_clzll(x) : ~0u;
        d[l] = x && SHIFT ? sizeof(T) * 8 - 1 - at : at;
    });
}
template <class T> void reverse(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        T x = get<T>(a[l]), r = 0;
        for (size_t n = 0; n < sizeof(T) * 8; n++) r |= (T)((x >> n & 1) << (sizeof(T) * 8 - 1 - n));
        d[l] = r;
    });
}
template <class T> void insert_bits(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]), *e = m.read(i.from[3]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u32 at = (u32)c[l] & 255, length = (u32)e[l] & 255;
        T result = get<T>(b[l]), from = get<T>(a[l]);
        for (u32 n = 0; n < length && at + n < sizeof(T) * 8; n++)
            result = (T)((result & ~((T)1 << (at + n))) | ((T)(from >> n & 1) << (at + n)));
        d[l] = result;
    });
}
template <class T> void extract_bits(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u32 at = (u32)b[l] & 255, length = (u32)c[l] & 255;
        using U = std::make_unsigned_t<T>;
        U x = (U)get<T>(a[l]), r = 0;
        u32 bits = sizeof(T) * 8;
        bool sign = false;
        if constexpr (std::is_signed_v<T>) sign = length && (x >> std::min(at + length - 1, bits - 1) & 1);
        for (u32 n = 0; n < bits; n++) {
            bool bit = n < length && at + n < bits ? (x >> (at + n) & 1) : sign;
            r |= (U)bit << n;
        }
        d[l] = r;
    });
}
void permute(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u64 both = (u64)(u32)b[l] << 32 | (u32)a[l];
        u32 r = 0;
        for (int n = 0; n < 4; n++) {
            u32 selector = (u32)c[l] >> (4 * n) & 15;
            u32 byte = both >> (8 * (selector & 7)) & 255;
            if (selector & 8) byte = byte & 128 ? 255 : 0;
            r |= byte << (8 * n);
        }
        d[l] = r;
    });
}
void lop3(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]), *t = m.read(i.from[3]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u32 x = (u32)a[l], y = (u32)b[l], z = (u32)c[l], r = 0;
        for (u32 n = 0; n < 8; n++)
            if ((u32)t[l] >> n & 1) r |= (n & 4 ? x : ~x) & (n & 2 ? y : ~y) & (n & 1 ? z : ~z);
        d[l] = r;
    });
}

// Carries.
template <class T, bool IN, bool OUT> void add_carry(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]);
    u64 *d = m.write(i.to[0]), *c = m.write(CARRY);
    lanes(mask, [&](int l) {
        unsigned __int128 sum = (unsigned __int128)(T)a[l] + (T)b[l] + (IN ? c[l] : 0);
        d[l] = (T)sum;
        if (OUT) c[l] = (u64)(sum >> (sizeof(T) * 8)) & 1;
    });
}
template <class T, bool IN, bool OUT> void sub_carry(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]);
    u64 *d = m.write(i.to[0]), *c = m.write(CARRY);
    lanes(mask, [&](int l) {
        // The carry of a + ~b + 1: there is one where nothing is borrowed.
        unsigned __int128 x = (T)a[l], y = (unsigned __int128)(T)b[l] + (IN ? 1 - c[l] : 0);
        d[l] = (T)(x - y);
        if (OUT) c[l] = x >= y;
    });
}
template <class T, bool HIGH, bool IN, bool OUT> void mad_carry(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 *d = m.write(i.to[0]), *carry = m.write(CARRY);
    lanes(mask, [&](int l) {
        unsigned __int128 product = (unsigned __int128)(T)a[l] * (T)b[l];
        T part = (T)(HIGH ? product >> (sizeof(T) * 8) : product);
        unsigned __int128 sum = (unsigned __int128)part + (T)c[l] + (IN ? carry[l] : 0);
        d[l] = (T)sum;
        if (OUT) carry[l] = (u64)(sum >> (sizeof(T) * 8)) & 1;
    });
}

} // namespace

Execute arithmetic(const Opcode &opcode, Instruction &) {
    const auto &op = opcode.name;
    Ty type = opcode.type;
    auto has = [&](const char *word) { return opcode.has(word); };
    bool carry_out = has("cc");
    bool wide = width_of(type) == 8;
    if (op == "add" && carry_out) return wide ? (Execute)add_carry<u64, false, true> : add_carry<u32, false, true>;
    if (op == "addc")
        return wide ? (carry_out ? (Execute)add_carry<u64, true, true> : add_carry<u64, true, false>)
                    : (carry_out ? (Execute)add_carry<u32, true, true> : add_carry<u32, true, false>);
    if (op == "sub" && carry_out) return wide ? (Execute)sub_carry<u64, false, true> : sub_carry<u32, false, true>;
    if (op == "subc")
        return wide ? (carry_out ? (Execute)sub_carry<u64, true, true> : sub_carry<u64, true, false>)
                    : (carry_out ? (Execute)sub_carry<u32, true, true> : sub_carry<u32, true, false>);
    if ((op == "mad" && carry_out) || op == "madc") {
        bool in = op == "madc", high = has("hi");
#define MAD_C(T, H)                                                                                                              \
    if (in && carry_out) return mad_carry<T, H, true, true>;                                                                     \
    if (in) return mad_carry<T, H, true, false>;                                                                                 \
    return mad_carry<T, H, false, true>;
        if (wide) {
            if (high) {
                MAD_C(u64, true)
            } else {
                MAD_C(u64, false)
            }
        } else {
            if (high) {
                MAD_C(u32, true)
            } else {
                MAD_C(u32, false)
            }
        }
    }
    if (has("sat")) return nullptr;
    if (op == "add") {
        BY_INT(binary, Add) BY_FLOAT(binary, Add)
    }
    if (op == "sub") {
        BY_INT(binary, Sub) BY_FLOAT(binary, Sub)
    }
    if (op == "mul") {
        if (has("wide")) switch (type) {
            case Ty::U16: return multiply_wide<u16, u32>;
            case Ty::S16: return multiply_wide<i16, i32>;
            case Ty::U32: return multiply_wide<u32, u64>;
            case Ty::S32: return multiply_wide<i32, i64>;
            default: return nullptr;
            }
        if (has("hi")) {
            BY_INT(binary, MulHi)
        }
        BY_INT(binary, Mul)
        BY_FLOAT(binary, Mul)
    }
    if (op == "mad") {
        if (has("wide")) switch (type) {
            case Ty::U16: return mad_wide<u16, u32>;
            case Ty::S16: return mad_wide<i16, i32>;
            case Ty::U32: return mad_wide<u32, u64>;
            case Ty::S32: return mad_wide<i32, i64>;
            default: return nullptr;
            }
        if (has("hi")) {
            BY_INT(ternary, MadHi)
        }
        BY_INT(ternary, MadLo)
    }
    if (op == "fma" && has("rz")) {
        BY_FLOAT(ternary, FmaToZero)
    }
    if (op == "fma") {
        BY_FLOAT(ternary, Fma)
    }
    if (op == "div") {
        BY_INT(binary, Div) BY_FLOAT(binary, Div)
    }
    if (op == "rem") {
        BY_INT(binary, Rem)
    }
    if (op == "min") {
        BY_INT(binary, Min) BY_FLOAT(binary, Min)
    }
    if (op == "max") {
        BY_INT(binary, Max) BY_FLOAT(binary, Max)
    }
    if (op == "and") {
        BY_BITS(binary, And)
    }
    if (op == "or") {
        BY_BITS(binary, Or)
    }
    if (op == "xor") {
        BY_BITS(binary, Xor)
    }
    if (op == "not") {
        BY_BITS(unary, Not)
    }
    if (op == "neg") {
        BY_INT(unary, Neg) BY_FLOAT(unary, Neg)
    }
    if (op == "abs") switch (type) {
        case Ty::S32: return unary<i32, Abs>;
        case Ty::S64: return unary<i64, Abs>;
        case Ty::F32: return unary<float, Abs>;
        case Ty::F64: return unary<double, Abs>;
        default: return nullptr;
        }
    if (op == "sqrt") {
        BY_FLOAT(unary, Sqrt)
    }
    if (op == "rcp") {
        BY_FLOAT(unary, Rcp)
    }
    if (op == "copysign") {
        BY_FLOAT(binary, CopySign)
    }
    if (op == "shl") switch (width_of(type)) {
        case 2: return shift_left<u16>;
        case 4: return shift_left<u32>;
        case 8: return shift_left<u64>;
        default: return nullptr;
        }
    if (op == "shr") switch (type) {
        case Ty::S16: return shift_right<i16>;
        case Ty::S32: return shift_right<i32>;
        case Ty::S64: return shift_right<i64>;
        case Ty::U16:
        case Ty::B16: return shift_right<u16>;
        case Ty::U32:
        case Ty::B32: return shift_right<u32>;
        case Ty::U64:
        case Ty::B64: return shift_right<u64>;
        default: return nullptr;
        }
    if (op == "shf") {
        bool left = opcode.words[1] == "l", wrap = opcode.words[2] == "wrap";
        return left ? (wrap ? (Execute)funnel<true, true> : funnel<true, false>)
                    : (wrap ? (Execute)funnel<false, true> : funnel<false, false>);
    }
    if (op == "popc") return wide ? (Execute)popcount<u64> : popcount<u32>;
    if (op == "clz") return wide ? (Execute)leading<u64> : leading<u32>;
    if (op == "bfind") {
        bool shift = has("shiftamt");
        switch (type) {
        case Ty::U32: return shift ? (Execute)find_bit<u32, true> : find_bit<u32, false>;
        case Ty::S32: return shift ? (Execute)find_bit<i32, true> : find_bit<i32, false>;
        case Ty::U64: return shift ? (Execute)find_bit<u64, true> : find_bit<u64, false>;
        case Ty::S64: return shift ? (Execute)find_bit<i64, true> : find_bit<i64, false>;
        default: return nullptr;
        }
    }
    if (op == "brev") return wide ? (Execute)reverse<u64> : reverse<u32>;
    if (op == "bfi") return wide ? (Execute)insert_bits<u64> : insert_bits<u32>;
    if (op == "bfe") switch (type) {
        case Ty::U32: return extract_bits<u32>;
        case Ty::S32: return extract_bits<i32>;
        case Ty::U64: return extract_bits<u64>;
        case Ty::S64: return extract_bits<i64>;
        default: return nullptr;
        }
    if (op == "prmt") return permute;
    if (op == "lop3") return lop3;
    return nullptr;
}
