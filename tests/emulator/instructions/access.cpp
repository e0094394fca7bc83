// Loads, stores and atomics; every address is checked.
#include "instructions/lanes.hpp"
#include "memory.hpp"
#include "instructions/operations.hpp"
#include <cmath>

namespace {

__attribute__((noinline)) u8 *place_elsewhere(Machine &m, const Instruction &i, u64 address, u32 bytes) {
    u64 at = address + i.offset;
    switch (i.space) {
    case Space::Shared:
        at = (u32)at;
        if (at + bytes > m.shared_bytes)
            m.fault(i, "shared memory at " + std::to_string(at) + " of " + std::to_string(m.shared_bytes));
        if (at % bytes) m.fault(i, "shared memory at " + std::to_string(at) + ", not aligned");
        return m.shared + at;
    case Space::Param:
        if (at < m.kernel->parameter_bytes) {
            if (at + bytes > m.kernel->parameter_bytes) m.fault(i, "parameters");
            return (u8 *)m.parameters + at;
        }
        return (u8 *)at;
    case Space::Local:
        if (at < (u64)m.local || at + bytes > (u64)m.local + (u64)m.local_bytes * 32) m.fault(i, "local memory");
        return (u8 *)at;
    default:
        if (i.space == Space::Generic) {
            if (at % bytes) m.fault(i, "an address that is not aligned");
            for (u8 *there : m.cluster->shared)
                if (there && at - (u64)there < m.shared_bytes && at - (u64)there + bytes <= m.shared_bytes) return (u8 *)at;
            if (at >= (u64)m.local && at + bytes <= (u64)m.local + (u64)m.local_bytes * 32) return (u8 *)at;
            if (at >= (u64)m.parameters && at + bytes <= (u64)m.parameters + m.kernel->parameter_bytes) return (u8 *)at;
        }
        if (at % bytes) m.fault(i, "global memory, not aligned");
        if (!allocated(at, bytes))
            m.fault(i, "global memory that is not allocated: " + std::to_string(bytes) + " bytes" + neighbours(at));
        return (u8 *)at;
    }
}
inline u8 *place(Machine &m, const Instruction &i, u64 address, u32 bytes) {
    u64 at = address + i.offset;
    if (i.space == Space::Shared) {
        u32 low = (u32)at;
        if (__builtin_expect(low + (u64)bytes <= m.shared_bytes && (low & (bytes - 1)) == 0, 1)) return m.shared + low;
    } else if (i.space == Space::Global) {
        if (__builtin_expect((at & (bytes - 1)) == 0 && allocated(at, bytes), 1)) return (u8 *)at;
    }
    return place_elsewhere(m, i, address, bytes);
}
template <class T> void load(Machine &m, const Instruction &i, u32 mask) {
    u64 address[32];
    memcpy(address, m.read(i.from[0]), sizeof address);
    u32 n = i.lanes_of_vector;
    lanes(mask, [&](int l) {
        // A vector is read at once.
        const u8 *at = place(m, i, address[l], std::min<u32>(sizeof(T) * n, 16));
        for (u32 k = 0; k < n; k++) {
            if (i.to[k] == NONE) continue;
            T value = __atomic_load_n((const T *)at + k, __ATOMIC_RELAXED);
            if constexpr (std::is_signed_v<T>)
                m.write(i.to[k])[l] = (u64)(i64)value;
            else
                m.write(i.to[k])[l] = value;
        }
    });
}
template <class T> void store(Machine &m, const Instruction &i, u32 mask) {
    const u64 *address = m.read(i.from[0]);
    u32 n = i.lanes_of_vector;
    lanes(mask, [&](int l) {
        u8 *at = place(m, i, address[l], std::min<u32>(sizeof(T) * n, 16));
        for (u32 k = 0; k < n; k++) __atomic_store_n((T *)at + k, (T)m.read(i.more[k])[l], __ATOMIC_RELAXED);
    });
}
void copy(Machine &m, const Instruction &i, u32 mask) {
    const u64 *shared = m.read(i.from[0]), *global = m.read(i.from[1]), *read = m.read(i.from[2]);
    Instruction at = i;
    lanes(mask, [&](int l) {
        at.space = Space::Shared;
        u8 *to = place(m, at, shared[l], i.bytes);
        // What nobody has waited for is not there yet.
        memset(to, 0xcd, i.bytes);
        m.copies.push_back({l, to, i.bytes, {}});
        u8 *content = m.copies.back().content;
        u32 bytes = (u32)read[l];
        if (bytes > i.bytes) m.fault(i, "a copy that reads more than it writes");
        if (bytes == 0) return;
        if (global[l] % i.bytes) m.fault(i, "a copy of global memory, not aligned");
        at.space = Space::Global;
        // What is read may end within a word.
        for (u32 k = 0; k < bytes; k++) content[k] = *place(m, at, global[l] + k, 1);
    });
}
void wait_for_copies(Machine &m, const Instruction &, u32 mask) {
    std::erase_if(m.copies, [&](auto &copy) {
        if (!(mask >> copy.lane & 1)) return false;
        memcpy(copy.to, copy.content, copy.bytes);
        return true;
    });
}
/// Whether a generic address is of another block's shared memory.
bool of_another_block(const Machine &m, const Instruction &i, u64 address) {
    if (i.space != Space::Generic) return false;
    for (u8 *there : m.cluster->shared)
        if (there && there != m.shared && address + i.offset - (u64)there < m.shared_bytes) return true;
    return false;
}
template <class T, class Op> void atomic(Machine &m, const Instruction &i, u32 mask) {
    const u64 *address = m.read(i.from[0]), *b = m.read(i.from[1]);
    u64 *d = i.to[0] == NONE ? nullptr : m.write(i.to[0]);
    using Bits = std::conditional_t<sizeof(T) == 8, u64, u32>;
    lanes(mask, [&](int l) {
        Bits *at = (Bits *)place(m, i, address[l], sizeof(T));
        if (sizeof(T) == 8 && !std::is_same_v<Op, Add> && of_another_block(m, i, address[l]))
            m.fault(i, "no atomic of 64 bits but additions has another block's shared memory, by a generic address");
        T with = get<T>(b[l]);
        Bits before = __atomic_load_n(at, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(at, &before, (Bits)put<T>(Op::of(get<T>(before), with)), true, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED)) {}
        if (d) d[l] = before;
    });
}
struct Exchange {
    template <class T> static T of(T, T b) { return b; }
};
struct Increment {
    template <class T> static T of(T a, T b) { return a >= b ? 0 : a + 1; }
};
template <class T> void swap_if(Machine &m, const Instruction &i, u32 mask) {
    const u64 *address = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 *d = i.to[0] == NONE ? nullptr : m.write(i.to[0]);
    lanes(mask, [&](int l) {
        T *at = (T *)place(m, i, address[l], sizeof(T));
        T expected = (T)b[l];
        __atomic_compare_exchange_n(at, &expected, (T)c[l], false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        if (d) d[l] = expected;
    });
}
Execute atomic_by(const std::string &op, Ty type) {
    if (op == "cas") return width_of(type) == 8 ? (Execute)swap_if<u64> : swap_if<u32>;
#define ATOMIC(OP)                                                                                                               \
    switch (type) {                                                                                                              \
    case Ty::U32:                                                                                                                \
    case Ty::B32: return atomic<u32, OP>;                                                                                        \
    case Ty::S32: return atomic<i32, OP>;                                                                                        \
    case Ty::U64:                                                                                                                \
    case Ty::B64: return atomic<u64, OP>;                                                                                        \
    case Ty::S64: return atomic<i64, OP>;                                                                                        \
    default: break;                                                                                                              \
    }
    if (op == "add") {
        BY_FLOAT(atomic, Add)
        ATOMIC(Add)
    }
    if (op == "min") {
        ATOMIC(Min)
    }
    if (op == "max") {
        ATOMIC(Max)
    }
    if (op == "and") {
        ATOMIC(And)
    }
    if (op == "or") {
        ATOMIC(Or)
    }
    if (op == "xor") {
        ATOMIC(Xor)
    }
    if (op == "exch") {
        ATOMIC(Exchange)
    }
    if (op == "inc") {
        ATOMIC(Increment)
    }
    return nullptr;
}

} // namespace

Execute access(const Opcode &opcode, Instruction &) {
    const auto &op = opcode.name;
    if (op == "ld") {
        switch (opcode.type) {
        case Ty::S8: return load<i8>;
        case Ty::S16: return load<i16>;
        case Ty::S32: return load<i32>;
        default:
            switch (width_of(opcode.type)) {
            case 1: return load<u8>;
            case 2: return load<u16>;
            case 4: return load<u32>;
            default: return load<u64>;
            }
        }
    }
    if (op == "st") switch (width_of(opcode.type)) {
        case 1: return store<u8>;
        case 2: return store<u16>;
        case 4: return store<u32>;
        default: return store<u64>;
        }
    if (op == "cp" && opcode.has("wait_all")) return wait_for_copies;
    if (op == "cp" && opcode.has("async")) return copy;
    if (op == "atom" || op == "red")
        for (auto &word : {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc"})
            if (opcode.has(word)) return atomic_by(word, opcode.type);
    return nullptr;
}
