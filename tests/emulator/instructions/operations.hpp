// Operations on values that both arithmetic and atomics have.
#pragma once
#include <cmath>
#include <type_traits>

struct Add {
    template <class T> static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) {
            using U = std::make_unsigned_t<T>;
            return (T)(U)((U)a + (U)b);
        } else
            return a + b;
    }
};
struct Sub {
    template <class T> static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) {
            using U = std::make_unsigned_t<T>;
            return (T)(U)((U)a - (U)b);
        } else
            return a - b;
    }
};
struct Mul {
    template <class T> static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>)
            return (T)((u64)a * (u64)b);
        else
            return a * b;
    }
};
struct Div {
    template <class T> static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) {
            if (b == 0) return (T) ~(T)0;
            if constexpr (std::is_signed_v<T>)
                if (b == (T)-1) return (T)(0 - (std::make_unsigned_t<T>)a);
            return a / b;
        } else
            return a / b;
    }
};
struct Rem {
    template <class T> static T of(T a, T b) {
        if (b == 0) return a;
        if constexpr (std::is_signed_v<T>)
            if (b == (T)-1) return 0;
        return a % b;
    }
};
struct Min {
    template <class T> static T of(T a, T b) {
        if constexpr (std::is_floating_point_v<T>) {
            if (std::isnan(a)) return b;
            if (std::isnan(b)) return a;
            if (a == b) return std::signbit(a) ? a : b;
        }
        return a < b ? a : b;
    }
};
struct Max {
    template <class T> static T of(T a, T b) {
        if constexpr (std::is_floating_point_v<T>) {
            if (std::isnan(a)) return b;
            if (std::isnan(b)) return a;
            if (a == b) return std::signbit(a) ? b : a;
        }
        return a > b ? a : b;
    }
};
struct And {
    template <class T> static T of(T a, T b) { return a & b; }
};
struct Or {
    template <class T> static T of(T a, T b) { return a | b; }
};
struct Xor {
    template <class T> static T of(T a, T b) { return a ^ b; }
};
