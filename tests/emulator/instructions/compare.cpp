// Comparisons, which make predicates.
#include "instructions/lanes.hpp"
#include <cmath>

namespace {

enum class Test { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
template <class T, Test TEST> inline bool test(T a, T b) {
    [[maybe_unused]] bool nan = false;
    if constexpr (std::is_floating_point_v<T>) nan = std::isnan(a) || std::isnan(b);
    switch (TEST) {
    case Test::Eq: return a == b;
    case Test::Ne: return a != b && !nan;
    case Test::Lt: return a < b;
    case Test::Le: return a <= b;
    case Test::Gt: return a > b;
    case Test::Ge: return a >= b;
    case Test::Equ: return a == b || nan;
    case Test::Neu: return a != b;
    case Test::Ltu: return a < b || nan;
    case Test::Leu: return a <= b || nan;
    case Test::Gtu: return a > b || nan;
    case Test::Geu: return a >= b || nan;
    case Test::Num: return !nan;
    case Test::Nan: return nan;
    }
    return false;
}
// `variant`: 0 nothing, 1 and, 2 or, 3 xor with a predicate.
template <class T, Test TEST> void compare(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]);
    u64 *d = m.write(i.to[0]);
    if (i.variant == 0 && i.also == NONE) {
        lanes(mask, [&](int l) { d[l] = test<T, TEST>(get<T>(a[l]), get<T>(b[l])); });
        return;
    }
    const u64 *c = i.variant ? m.read(i.from[2]) : nullptr;
    u64 *q = i.also == NONE ? nullptr : m.write(i.also);
    lanes(mask, [&](int l) {
        bool p = test<T, TEST>(get<T>(a[l]), get<T>(b[l])), with = c ? c[l] : true;
        auto join = [&](bool x) { return i.variant == 2 ? x || with : i.variant == 3 ? x != with : x && with; };
        bool first = join(p), second = join(!p);
        d[l] = first;
        if (q) q[l] = second;
    });
}
template <class T> Execute compare_by(const std::string &w) {
#define TEST_OF(NAME, T_)                                                                                                        \
    if (w == NAME) return compare<T, Test::T_>;
    TEST_OF("eq", Eq)
    TEST_OF("ne", Ne) TEST_OF("lt", Lt) TEST_OF("le", Le) TEST_OF("gt", Gt) TEST_OF("ge", Ge) TEST_OF("lo", Lt) TEST_OF("ls", Le)
        TEST_OF("hi", Gt) TEST_OF("hs", Ge) if constexpr (std::is_floating_point_v<T>) {
        TEST_OF("equ", Equ)
        TEST_OF("neu", Neu) TEST_OF("ltu", Ltu) TEST_OF("leu", Leu) TEST_OF("gtu", Gtu) TEST_OF("geu", Geu) TEST_OF("num", Num)
            TEST_OF("nan", Nan)
    }
    return nullptr;
}

} // namespace

Execute comparison(const Opcode &opcode, Instruction &ins) {
    if (opcode.name != "setp") return nullptr;
    ins.variant = opcode.has("and") ? 1 : opcode.has("or") ? 2 : opcode.has("xor") ? 3 : 0;
    const auto &w = opcode.words[1];
    switch (opcode.type) {
    case Ty::U16:
    case Ty::B16: return compare_by<u16>(w);
    case Ty::S16: return compare_by<i16>(w);
    case Ty::U32:
    case Ty::B32: return compare_by<u32>(w);
    case Ty::S32: return compare_by<i32>(w);
    case Ty::U64:
    case Ty::B64: return compare_by<u64>(w);
    case Ty::S64: return compare_by<i64>(w);
    case Ty::F32: return compare_by<float>(w);
    case Ty::F64: return compare_by<double>(w);
    default: return nullptr;
    }
}
