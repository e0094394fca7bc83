// Moves, choices, parts of words, conversions, and addresses of one space as those of another.
#include "instructions/lanes.hpp"
#include <cmath>
#include <limits>

namespace {

void select(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = c[l] ? a[l] : b[l]; });
}
/// A move of whole rows; numbers are cut to the width of the register.
template <class T> void move(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = (T)a[l]; });
}
void move_offset(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = a[l] + i.offset; });
}
void move_parameter(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = (u64)m.parameters + a[l]; });
}
void cut(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 kept[32];
    memcpy(kept, a, sizeof kept);
    u32 bits = i.bytes * 8;
    for (u32 n = 0; n < i.lanes_of_vector; n++) {
        if (i.to[n] == NONE) continue;
        u64 *d = m.write(i.to[n]);
        lanes(mask, [&](int l) { d[l] = kept[l] >> (bits * n) & ((1ull << bits) - 1); });
    }
}
void join(Machine &m, const Instruction &i, u32 mask) {
    u32 bits = i.bytes * 8;
    u64 made[32] = {};
    for (u32 n = 0; n < i.lanes_of_vector; n++) {
        const u64 *a = m.read(i.more[n]);
        lanes(mask, [&](int l) { made[l] |= (a[l] & ((1ull << bits) - 1)) << (bits * n); });
    }
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = made[l]; });
}

enum class Round { None, Nearest, Zero, Down, Up };
template <class To, class From> inline To convert(From x, Round round) {
    if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        double y = x;
        if (std::isnan(y)) return sizeof(To) == 8 ? (To)(1ull << 63) : (To)0;
        y = round == Round::Nearest ? std::nearbyint(y)
            : round == Round::Down  ? std::floor(y)
            : round == Round::Up    ? std::ceil(y)
                                    : std::trunc(y);
        if (y <= (double)std::numeric_limits<To>::min()) return std::numeric_limits<To>::min();
        if (y >= (double)std::numeric_limits<To>::max()) return std::numeric_limits<To>::max();
        return (To)y;
    } else if constexpr (std::is_floating_point_v<From>) {
        if constexpr (std::is_same_v<From, To>) {
            switch (round) {
            case Round::Nearest: return std::nearbyint(x);
            case Round::Zero: return std::trunc(x);
            case Round::Down: return std::floor(x);
            case Round::Up: return std::ceil(x);
            default: return x;
            }
        }
        return (To)x;
    } else {
        return (To)x;
    }
}
template <class To, class From> void cvt(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    Round round = (Round)i.variant;
    lanes(mask, [&](int l) {
        To x = convert<To, From>(get<From>(a[l]), round);
        // A narrow signed value fills the register.
        if constexpr (std::is_integral_v<To> && std::is_signed_v<To>)
            d[l] = (u64)(i64)x;
        else
            d[l] = put<To>(x);
    });
}
template <class To> Execute cvt_from(Ty from) {
    switch (from) {
    case Ty::U8: return cvt<To, u8>;
    case Ty::S8: return cvt<To, i8>;
    case Ty::U16: return cvt<To, u16>;
    case Ty::S16: return cvt<To, i16>;
    case Ty::U32: return cvt<To, u32>;
    case Ty::S32: return cvt<To, i32>;
    case Ty::U64: return cvt<To, u64>;
    case Ty::S64: return cvt<To, i64>;
    case Ty::F32: return cvt<To, float>;
    case Ty::F64: return cvt<To, double>;
    default: return nullptr;
    }
}
Execute cvt_by(Ty to, Ty from) {
    switch (to) {
    case Ty::U8: return cvt_from<u8>(from);
    case Ty::S8: return cvt_from<i8>(from);
    case Ty::U16: return cvt_from<u16>(from);
    case Ty::S16: return cvt_from<i16>(from);
    case Ty::U32: return cvt_from<u32>(from);
    case Ty::S32: return cvt_from<i32>(from);
    case Ty::U64: return cvt_from<u64>(from);
    case Ty::S64: return cvt_from<i64>(from);
    case Ty::F32: return cvt_from<float>(from);
    case Ty::F64: return cvt_from<double>(from);
    default: return nullptr;
    }
}

void to_generic(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    u64 base = i.space == Space::Shared ? (u64)m.shared : 0;
    lanes(mask, [&](int l) { d[l] = a[l] + base; });
}
void from_generic(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u64 *d = m.write(i.to[0]);
    u64 base = i.space == Space::Shared ? (u64)m.shared : 0;
    lanes(mask, [&](int l) { d[l] = a[l] - base; });
}

/// What another block of the cluster has where this one has it.
void to_rank(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]), *rank = m.read(i.from[1]);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) {
        u64 at = a[l] - (u64)m.shared;
        if (at >= m.shared_bytes) m.fault(i, "an address that is not of shared memory");
        if (rank[l] >= m.cluster->shared.size()) m.fault(i, "a block that is not of the cluster");
        u8 *there = m.cluster->shared[rank[l]];
        if (!there) m.fault(i, "a block that has ended");
        d[l] = (u64)there + at;
    });
}

} // namespace

Execute movement(const Opcode &opcode, Instruction &ins) {
    const auto &op = opcode.name;
    if (op == "cut") return cut;
    if (op == "join") return join;
    if (op == "offset") return move_offset;
    if (op == "parameter") return move_parameter;
    if (op == "selp") return select;
    if (op == "mapa") return opcode.type == Ty::U64 && opcode.words.size() == 2 ? to_rank : nullptr;
    if (op == "cvta") return opcode.has("to") ? from_generic : to_generic;
    if (op == "mov") switch (width_of(opcode.type)) {
        case 1: return opcode.type == Ty::Pred ? (Execute)move<u64> : move<u8>;
        case 2: return move<u16>;
        case 4: return move<u32>;
        default: return move<u64>;
        }
    if (op != "cvt") return nullptr;
    Round round = Round::None;
    for (auto &word : opcode.words) {
        if (word == "rni") round = Round::Nearest;
        if (word == "rzi") round = Round::Zero;
        if (word == "rmi") round = Round::Down;
        if (word == "rpi") round = Round::Up;
        if (word == "rz" || word == "rm" || word == "rp" || word == "sat") return nullptr;
    }
    ins.variant = (u32)round;
    return cvt_by(type_of(opcode.words[opcode.words.size() - 2]), opcode.type);
}
