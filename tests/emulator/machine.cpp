// Warps, blocks and grids: whose turn it is, and what they wait for.
#include "machine.hpp"
#include <algorithm>
#include <chrono>
#include <random>

void Machine::fault(const Instruction &i, const std::string &what) const {
    die(kernel->name + ", line " + std::to_string(i.line) + " of its function's text, block " + std::to_string(block) +
        ", warp " + std::to_string(warp) + ": " + what);
}

namespace {

/// Lanes of a warp that are at the same instruction.
struct Group {
    u32 at, mask;
    /// For other lanes, or for the block.
    bool waits = false;
};

struct Warp {
    std::vector<Group> groups;
    std::vector<u64> registers;
    u32 alive = 0;
    u32 at_barrier = 0;
    Machine machine;
};

} // namespace

struct Block {
    std::vector<Warp> warps;
    std::vector<u8> shared, local;
    std::shared_ptr<Cluster> cluster;
    u32 rank = 0, threads = 0;
    u32 waiting = 0, alive = 0;
};

namespace {

struct Run {
    const Kernel &kernel;
    u32 grid[3], threads[3];
    u32 blocks_of_cluster, dynamic;
    const u8 *parameters;
    std::minstd_rand random;
    u64 idle = 0;
    bool slept = false;

    void start(Block &block, u64 number, std::shared_ptr<Cluster> cluster) {
        u32 count = threads[0] * threads[1] * threads[2];
        u32 warps = (count + 31) / 32;
        block.threads = block.alive = count;
        block.waiting = 0;
        u32 shared_bytes = (kernel.shared_bytes + 15) / 16 * 16 + dynamic;
        // What nobody wrote is no zero.
        block.shared.assign(shared_bytes + 128, 0xcd);
        u8 *shared = (u8 *)(((u64)block.shared.data() + 127) / 128 * 128);
        block.rank = cluster->blocks.size();
        cluster->blocks.push_back(&block);
        cluster->shared.push_back(shared);
        block.cluster = cluster;
        u32 local_bytes = (kernel.local_bytes + 15) / 16 * 16;
        block.local.resize((size_t)local_bytes * warps * 32 + 16);
        u8 *local = (u8 *)(((u64)block.local.data() + 15) / 16 * 16);
        block.warps.resize(warps);
        u32 bx = number % grid[0], by = number / grid[0] % grid[1], bz = number / grid[0] / grid[1];
        for (u32 w = 0; w < warps; w++) {
            Warp &warp = block.warps[w];
            warp.registers.resize((size_t)kernel.rows * 32);
            u32 lanes = std::min(32u, count - w * 32);
            warp.alive = lanes == 32 ? ~0u : (1u << lanes) - 1;
            warp.at_barrier = 0;
            warp.groups.assign(1, {0, warp.alive});
            Machine &m = warp.machine;
            m.registers = warp.registers.data();
            m.constants = kernel.constants.data();
            m.parameters = parameters;
            m.shared = shared;
            m.shared_bytes = shared_bytes;
            m.local = local + (size_t)local_bytes * w * 32;
            m.local_bytes = local_bytes;
            m.kernel = &kernel;
            m.block = number;
            m.cluster = cluster.get();
            m.copies.clear();
            m.warp = w;
            for (u32 l = 0; l < 32; l++) {
                u32 t = w * 32 + l;
                auto set = [&](Row row, u64 value) { m.registers[row * 32 + l] = value; };
                set(TID_X, t % threads[0]);
                set(TID_Y, t / threads[0] % threads[1]);
                set(TID_Z, t / threads[0] / threads[1]);
                set(CTAID_X, bx);
                set(CTAID_Y, by);
                set(CTAID_Z, bz);
                set(NTID_X, threads[0]);
                set(NTID_Y, threads[1]);
                set(NTID_Z, threads[2]);
                set(NCTAID_X, grid[0]);
                set(NCTAID_Y, grid[1]);
                set(NCTAID_Z, grid[2]);
                set(LANEID, l);
                set(WARPID, w);
                set(LANEMASK_EQ, 1u << l);
                set(LANEMASK_LT, (1u << l) - 1);
                set(LANEMASK_LE, (u32)((2ull << l) - 1));
                set(LANEMASK_GT, (u32) ~((2ull << l) - 1));
                set(LANEMASK_GE, (u32) ~((1ull << l) - 1));
                set(SMID, number % 3);
                set(NSMID, 3);
                set(CLOCK, 0);
                set(DYNAMIC_SHARED, dynamic);
                set(CLUSTER_RANK, block.rank);
                set(CLUSTER_BLOCKS, blocks_of_cluster);
                set(LOCAL_BASE, (u64)(m.local + (size_t)local_bytes * l));
            }
        }
    }

    /// Lanes that go to `target`; groups at one instruction become one.
    static void add(Warp &warp, u32 at, u32 mask) {
        if (!mask) return;
        for (auto &group : warp.groups)
            if (group.at == at && group.mask && !group.waits) {
                group.mask |= mask;
                return;
            }
        warp.groups.push_back({at, mask});
    }

    void exit(Block &block, Warp &warp, u32 mask) {
        warp.alive &= ~mask;
        block.alive -= __builtin_popcount(mask);
        // Others may have waited for these.
        for (auto &group : warp.groups)
            if (!(group.mask & warp.at_barrier)) group.waits = false;
    }

    /// Lets a warp go on for some instructions; whether it did anything.
    bool go(Block &block, Warp &warp, u32 most) {
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

    /// All threads of a block that are alive have come to a barrier.
    void release(Block &block) {
        const Instruction *at = nullptr;
        u64 any = 0, all = 1;
        for (auto &warp : block.warps)
            for (auto &group : warp.groups) {
                if (!(group.mask & warp.at_barrier)) continue;
                const Instruction &i = kernel.code[group.at];
                if (at && at->variant != i.variant) warp.machine.fault(i, "threads of a block wait at different barriers");
                at = &i;
                if (i.variant && i.variant != ALL_OF_CLUSTER)
                    for (int l = 0; l < 32; l++)
                        if (group.mask >> l & 1) {
                            u64 v = warp.machine.read(i.to[0])[l];
                            any |= v;
                            all &= v;
                        }
            }
        for (auto &warp : block.warps) {
            std::vector<Group> groups;
            groups.swap(warp.groups);
            for (auto &group : groups) {
                if (!(group.mask & warp.at_barrier)) {
                    warp.groups.push_back(group);
                    continue;
                }
                const Instruction &i = kernel.code[group.at];
                if (i.variant && i.variant != ALL_OF_CLUSTER)
                    for (int l = 0; l < 32; l++)
                        if (group.mask >> l & 1) warp.machine.write(i.to[0])[l] = i.variant == 1 ? all : any;
                add(warp, group.at + 1, group.mask);
            }
            warp.at_barrier = 0;
        }
        block.waiting = 0;
    }

    /// Whether all threads of a block that are alive have come to a barrier of its cluster.
    bool waits_for_cluster(const Block &block) {
        if (block.waiting < block.alive) return false;
        for (auto &warp : block.warps)
            for (auto &group : warp.groups)
                if (group.mask & warp.at_barrier) return kernel.code[group.at].variant == ALL_OF_CLUSTER;
        return false;
    }

    /// A block has come to a barrier of its cluster; who has ended is not waited for.
    void come(Block &block) {
        for (u32 rank = 0; rank < blocks_of_cluster; rank++)
            if (block.cluster->shared[rank] && !waits_for_cluster(*block.cluster->blocks[rank])) return;
        for (u32 rank = 0; rank < blocks_of_cluster; rank++)
            if (block.cluster->shared[rank]) release(*block.cluster->blocks[rank]);
    }

    [[noreturn]] void stuck(Block &block) {
        std::string where;
        for (size_t w = 0; w < block.warps.size() && where.size() < 2000; w++)
            for (auto &group : block.warps[w].groups) {
                char text[160];
                snprintf(text, sizeof text, "; warp %zu lanes %08x at instruction %u (line %u)%s", w, group.mask, group.at,
                         kernel.code[group.at].line, group.waits ? " wait" : "");
                where += text;
            }
        die(kernel.name + ": a block waits for itself" + where);
    }

    void all() {
        u64 count = (u64)grid[0] * grid[1] * grid[2];
        static const u32 resident = getenv("EMULATED_GPU_BLOCKS") ? atoi(getenv("EMULATED_GPU_BLOCKS")) : 6;
        std::vector<std::unique_ptr<Block>> blocks;
        // Their memory is kept from launch to launch.
        static thread_local std::vector<std::unique_ptr<Block>> spare;
        u64 next = 0;
        while (next < count || !blocks.empty()) {
            while (next < count && blocks.size() < resident) {
                auto cluster = std::make_shared<Cluster>();
                for (u32 rank = 0; rank < blocks_of_cluster; rank++) {
                    std::unique_ptr<Block> block;
                    if (spare.empty())
                        block = std::make_unique<Block>();
                    else {
                        block = std::move(spare.back());
                        spare.pop_back();
                    }
                    start(*block, next++, cluster);
                    blocks.push_back(std::move(block));
                }
            }
            for (size_t b = 0; b < blocks.size();) {
                Block &block = *blocks[b];
                bool went = false;
                slept = false;
                u32 rounds = 1 + random() % 6;
                // A block goes from barrier to barrier before it is the next one's turn.
                for (u32 round = 0; round < rounds && block.alive; round++) {
                    size_t begin = random() % block.warps.size();
                    bool some = false;
                    for (size_t w = 0; w < block.warps.size(); w++) {
                        Warp &warp = block.warps[(begin + w) % block.warps.size()];
                        if (warp.alive & ~warp.at_barrier) some |= go(block, warp, 100 + random() % 2000);
                    }
                    went |= some;
                    if (block.alive && waits_for_cluster(block)) {
                        // Others of it are still to come, or all go on.
                        come(block);
                        went = true;
                        if (block.waiting) break;
                    } else if (block.alive && block.waiting == block.alive) {
                        release(block);
                        went = true;
                    } else if (!some) {
                        break;
                    }
                }
                if (!block.alive) {
                    block.cluster->shared[block.rank] = nullptr;
                    block.cluster = nullptr;
                    spare.push_back(std::move(blocks[b]));
                    blocks[b] = std::move(blocks.back());
                    blocks.pop_back();
                    continue;
                }
                if (!went) stuck(block);
                b++;
            }
        }
    }
};

} // namespace

void run(const Kernel &kernel, const u32 grid[3], const u32 threads[3], u32 blocks_of_cluster, u32 dynamic,
         const u8 *parameters) {
    static const u32 seed = getenv("EMULATED_GPU_SEED") ? atoi(getenv("EMULATED_GPU_SEED")) : 1;
    Run run{kernel,  {grid[0], grid[1], grid[2]}, {threads[0], threads[1], threads[2]}, blocks_of_cluster,
            dynamic, parameters,                  std::minstd_rand(seed)};
    run.all();
}
