// Barriers of blocks and clusters, and blocks that wait for themselves.
#include "grid.hpp"
#include <cstdio>

void Grid::release(Block &block) {
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

bool Grid::waits_for_cluster(const Block &block) {
    if (block.waiting < block.alive) return false;
    for (auto &warp : block.warps)
        for (auto &group : warp.groups)
            if (group.mask & warp.at_barrier) return kernel.code[group.at].variant == ALL_OF_CLUSTER;
    return false;
}

void Grid::come(Block &block) {
    for (u32 rank = 0; rank < blocks_of_cluster; rank++)
        if (block.cluster->shared[rank] && !waits_for_cluster(*block.cluster->blocks[rank])) return;
    for (u32 rank = 0; rank < blocks_of_cluster; rank++)
        if (block.cluster->shared[rank]) release(*block.cluster->blocks[rank]);
}

void Grid::stuck(Block &block) {
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
