// A warp: which of its lanes go on, and where they meet again.
#include "grid.hpp"
#include <algorithm>

void Grid::add(Warp &warp, u32 at, u32 mask) {
    if (!mask) return;
    for (auto &group : warp.groups)
        if (group.at == at && group.mask && !group.waits) {
            group.mask |= mask;
            return;
        }
    warp.groups.push_back({at, mask});
}

void Grid::exit(Block &block, Warp &warp, u32 mask) {
    warp.alive &= ~mask;
    block.alive -= __builtin_popcount(mask);
    // Others may have waited for these.
    for (auto &group : warp.groups)
        if (!(group.mask & warp.at_barrier)) group.waits = false;
}

bool Grid::go(Block &block, Warp &warp, u32 most) {
    bool went = false;
    Machine &m = warp.machine;
    const Instruction *code = kernel.code.data();
    while (most > 0) {
        // The lanes that are furthest behind, or now and then others, as they may wait for what these do.
        std::erase_if(warp.groups, [](auto &g) { return !g.mask; });
        size_t chosen = SIZE_MAX, runnable = 0;
        for (size_t g = 0; g < warp.groups.size(); g++) {
            if (warp.groups[g].waits) continue;
            runnable++;
            if (chosen == SIZE_MAX || warp.groups[g].at < warp.groups[chosen].at) chosen = g;
        }
        if (chosen == SIZE_MAX) return went;
        u32 until = most;
        bool any = false;
        if (runnable > 1) {
            if (random() % 16 == 0) {
                size_t skip = random() % warp.groups.size();
                while (warp.groups[skip].waits) skip = (skip + 1) % warp.groups.size();
                chosen = skip;
                any = true;
                until = std::min(most, 64u);
            } else {
                until = std::min(most, 256u);
            }
        }
        Group group = warp.groups[chosen];
        warp.groups[chosen].mask = 0;
        // Where it meets others.
        u32 meets = UINT32_MAX;
        for (auto &other : warp.groups)
            if (other.mask && other.at >= group.at && !(other.mask & warp.at_barrier)) meets = std::min(meets, other.at);
        if (warp.groups.size() == 1) any = false;
        u32 steps = 0;
        bool yielded = false;
        for (; steps < until && !yielded; steps++) {
            if (group.at >= meets && (!any || group.at == meets)) break;
            const Instruction &i = code[group.at];
            u32 mask = group.mask;
            if (i.guard != NONE) {
                const u64 *p = m.read(i.guard);
                u32 holds = 0;
                for (int l = 0; l < 32; l++) holds |= (u32)(p[l] != 0) << l;
                mask &= i.guard_negated ? ~holds : holds;
                if (!mask) {
                    group.at++;
                    went = true;
                    continue;
                }
            }
            switch (i.kind) {
            case Kind::Plain:
                i.execute(m, i, mask);
                group.at++;
                went = true;
                break;
            case Kind::Branch: {
                went = true;
                u32 others = group.mask & ~mask;
                if (!others) {
                    group.at = i.target;
                    if (warp.groups.size() > 1) {
                        meets = UINT32_MAX;
                        for (auto &other : warp.groups)
                            if (other.mask && other.at >= group.at && !(other.mask & warp.at_barrier))
                                meets = std::min(meets, other.at);
                    }
                    break;
                }
                add(warp, i.target, mask);
                group.mask = others;
                group.at++;
                yielded = true;
                break;
            }
            case Kind::Exit:
                went = true;
                exit(block, warp, mask);
                group.mask &= ~mask;
                group.at++;
                yielded = true;
                break;
            case Kind::Trap: m.fault(i, "trap");
            case Kind::Sleep:
                went = slept = true;
                group.at++;
                until = 0;
                most = steps + 1;
                break;
            case Kind::Call: {
                went = true;
                if (mask != group.mask) m.fault(i, "a call of some lanes");
                const auto &site = kernel.calls[i.variant];
                for (int l = 0; l < 32; l++) {
                    if (!(mask >> l & 1)) continue;
                    u8 *local = (u8 *)m.registers[LOCAL_BASE * 32 + l];
                    for (auto &copy : site.before) memcpy(local + copy.to, local + copy.from, copy.bytes);
                    // Where to go on, and what to copy then.
                    m.registers[(size_t)site.return_row * 32 + l] = (u64)i.variant << 32 | (group.at + 1);
                }
                group.at = site.entry;
                yielded = true;
                break;
            }
            case Kind::Return: {
                went = true;
                for (int l = 0; l < 32; l++) {
                    if (!(mask >> l & 1)) continue;
                    u64 back = m.registers[(size_t)i.from[0] * 32 + l];
                    u8 *local = (u8 *)m.registers[LOCAL_BASE * 32 + l];
                    for (auto &copy : kernel.calls[back >> 32].after) memcpy(local + copy.to, local + copy.from, copy.bytes);
                    add(warp, (u32)back, 1u << l);
                }
                group.mask &= ~mask;
                group.at++;
                yielded = true;
                break;
            }
            case Kind::Warp: {
                const u64 *named = m.read(i.mask);
                u32 wanted = (u32)named[__builtin_ctz(mask)];
                for (int l = 0; l < 32; l++)
                    if (mask >> l & 1 && (u32)named[l] != wanted) {
                        // Lanes that name others among them go one mask after the other.
                        u32 same = 0;
                        for (int k = 0; k < 32; k++) same |= (u32)(mask >> k & 1 && (u32)named[k] == wanted) << k;
                        mask = same;
                        break;
                    }
                if (mask & ~wanted) m.fault(i, "a lane that is not in its own mask");
                u32 missing = wanted & warp.alive & ~mask;
                if (missing) {
                    // Wait for them, as they come here too.
                    warp.groups.push_back({group.at, mask, true});
                    group.mask &= ~mask;
                    yielded = true;
                    break;
                }
                went = true;
                u32 rest = group.mask & ~mask;
                i.execute(m, i, mask);
                if (!rest) {
                    group.at++;
                    break;
                }
                // Those that the guard leaves out, or that named others.
                bool guarded = i.guard != NONE;
                add(warp, group.at + 1, mask);
                group.mask = rest;
                if (guarded) {
                    // They are past it unless their guard holds too.
                    const u64 *p = m.read(i.guard);
                    u32 holds = 0;
                    for (int l = 0; l < 32; l++) holds |= (u32)((p[l] != 0) != i.guard_negated) << l;
                    u32 past = rest & ~holds;
                    add(warp, group.at + 1, past);
                    group.mask &= ~past;
                }
                yielded = true;
                break;
            }
            case Kind::Block:
                if (i.variant && i.variant != ALL_OF_CLUSTER) {
                    // What each thread brings is kept in the row of the result until all are there.
                    const u64 *a = m.read(i.from[0]);
                    u64 *d = m.write(i.to[0]);
                    for (int l = 0; l < 32; l++)
                        if (mask >> l & 1) d[l] = a[l] != 0;
                }
                warp.at_barrier |= mask;
                block.waiting += __builtin_popcount(mask);
                warp.groups.push_back({group.at, mask, true});
                group.mask &= ~mask;
                if (i.guard != NONE) group.at++;
                went = true;
                yielded = true;
                break;
            }
        }
        most -= std::min(most, steps + 1);
        if (group.mask) {
            bool merged = false;
            for (auto &other : warp.groups)
                if (other.mask && other.at == group.at && !(other.mask & warp.at_barrier)) {
                    // Who waits there looks again who has come.
                    other.mask |= group.mask;
                    other.waits = false;
                    merged = true;
                    break;
                }
            if (!merged) warp.groups.push_back(group);
        }
    }
    return went;
}
