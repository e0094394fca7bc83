// What lanes of a warp do together: shuffles, votes, matches, products of matrices.
#include "instructions/lanes.hpp"

namespace {

template <int MODE> void shuffle(Machine &m, const Instruction &i, u32 mask) {
    const u64 *source = m.read(i.from[0]), *b = m.read(i.from[1]), *c = m.read(i.from[2]);
    u64 a[32];
    memcpy(a, source, sizeof a);
    u64 results[32];
    bool in[32];
    lanes(mask, [&](int l) {
        u32 by = (u32)b[l] & 31, clamp = (u32)c[l] & 31, segment = (u32)c[l] >> 8 & 31;
        int most = (l & segment) | (clamp & ~segment), least = l & segment, j;
        bool p;
        if (MODE == 0)
            j = l - (int)by, p = j >= most;
        else if (MODE == 1)
            j = l + (int)by, p = j <= most;
        else if (MODE == 2)
            j = l ^ (int)by, p = j <= most;
        else
            j = least | (by & ~segment), p = j <= most;
        if (!p) j = l;
        // What a lane has that takes no part is not known.
        results[l] = mask >> j & 1 ? (u32)a[j] : 0xdeadbeef;
        in[l] = p;
    });
    if (i.to[0] != NONE) {
        u64 *d = m.write(i.to[0]);
        lanes(mask, [&](int l) { d[l] = results[l]; });
    }
    if (i.also != NONE) {
        u64 *p = m.write(i.also);
        lanes(mask, [&](int l) { p[l] = in[l]; });
    }
}
template <int MODE> void vote(Machine &m, const Instruction &i, u32 mask) {
    const u64 *a = m.read(i.from[0]);
    u32 ballot = 0;
    lanes(mask, [&](int l) { ballot |= (u32)(a[l] != 0) << l; });
    u64 value = MODE == 0 ? ballot : MODE == 1 ? ballot != 0 : MODE == 2 ? ballot == mask : (ballot == mask || ballot == 0);
    u64 *d = m.write(i.to[0]);
    lanes(mask, [&](int l) { d[l] = value; });
}
template <class T, bool ALL> void match(Machine &m, const Instruction &i, u32 mask) {
    const u64 *source = m.read(i.from[0]);
    u64 a[32];
    memcpy(a, source, sizeof a);
    u64 *d = m.write(i.to[0]);
    if (ALL) {
        bool same = true;
        T first = (T)a[__builtin_ctz(mask)];
        lanes(mask, [&](int l) { same &= (T)a[l] == first; });
        lanes(mask, [&](int l) { d[l] = same ? mask : 0; });
        if (i.also != NONE) {
            u64 *p = m.write(i.also);
            lanes(mask, [&](int l) { p[l] = same; });
        }
        return;
    }
    lanes(mask, [&](int l) {
        u32 like = 0;
        lanes(mask, [&](int k) { like |= (u32)((T)a[k] == (T)a[l]) << k; });
        d[l] = like;
    });
}

/// A product of 8 rows and 8 columns, each of four words, of which lanes of four have one: a sum of what words that meet make.
template <class Meet> void mma_of_words(Machine &m, const Instruction &i, u32 mask) {
    if (mask != ~0u) m.fault(i, "mma of a part of a warp");
    const u64 *a = m.read(i.from[0]), *b = m.read(i.also);
    u32 results[2][32];
    for (int l = 0; l < 32; l++)
        for (int e = 0; e < 2; e++) {
            int row = l >> 2, column = (l & 3) * 2 + e;
            u32 sum = (u32)m.read(i.more[e])[l];
            for (int k = 0; k < 4; k++) sum += Meet::of((u32)a[row * 4 + k], (u32)b[column * 4 + k]);
            results[e][l] = sum;
        }
    for (int e = 0; e < 2; e++)
        for (int l = 0; l < 32; l++) m.write(i.to[e])[l] = results[e][l];
}
struct Bytes {
    static u32 of(u32 a, u32 b) {
        u32 sum = 0;
        for (int k = 0; k < 32; k += 8) sum += (a >> k & 255) * (b >> k & 255);
        return sum;
    }
};
void mma_b1_and(Machine &m, const Instruction &i, u32 mask) {
    if (mask != ~0u) m.fault(i, "mma of a part of a warp");
    i32 results[4][32];
    const u64 *b[2] = {m.read(i.also), m.read((Row)i.target)};
    for (int l = 0; l < 32; l++)
        for (int e = 0; e < 4; e++) {
            int row = l >> 2, column = (l & 3) * 2 + (e & 1);
            i32 sum = (i32)m.read(i.more[e])[l];
            for (int half = 0; half < 2; half++) {
                const u64 *a = m.read(i.from[half * 2 + (e >> 1)]);
                for (int k = 0; k < 4; k++) sum += __builtin_popcount((u32)a[row * 4 + k] & (u32)b[half][column * 4 + k]);
            }
            results[e][l] = sum;
        }
    for (int e = 0; e < 4; e++)
        for (int l = 0; l < 32; l++) m.write(i.to[e])[l] = (u32)results[e][l];
}

} // namespace

Execute across(const Opcode &opcode, Instruction &) {
    const auto &op = opcode.name;
    if (op == "shfl")
        return opcode.has("up")     ? (Execute)shuffle<0>
               : opcode.has("down") ? shuffle<1>
               : opcode.has("bfly") ? shuffle<2>
                                    : shuffle<3>;
    if (op == "vote")
        return opcode.has("ballot") ? (Execute)vote<0> : opcode.has("any") ? vote<1> : opcode.has("all") ? vote<2> : nullptr;
    if (op == "match") {
        bool all = opcode.has("all");
        if (width_of(opcode.type) == 8) return all ? (Execute)match<u64, true> : match<u64, false>;
        return all ? (Execute)match<u32, true> : match<u32, false>;
    }
    if (op == "mma") {
        if (opcode.has("m8n8k16") && opcode.has("u8")) return mma_of_words<Bytes>;
        if (opcode.has("m16n8k256") && opcode.has("and")) return mma_b1_and;
    }
    return nullptr;
}
