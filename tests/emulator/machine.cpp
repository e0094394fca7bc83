// Grids: blocks begin, are resident a few at a time, and take turns.
#include "grid.hpp"
#include <algorithm>

void Machine::fault(const Instruction &i, const std::string &what) const {
    die(kernel->name + ", line " + std::to_string(i.line) + " of its function's text, block " + std::to_string(block) +
        ", warp " + std::to_string(warp) + ": " + what);
}

void Grid::start(Block &block, u64 number, std::shared_ptr<Cluster> cluster) {
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

void Grid::run() {
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

void run(const Kernel &kernel, const u32 grid[3], const u32 threads[3], u32 blocks_of_cluster, u32 dynamic,
         const u8 *parameters) {
    static const u32 seed = getenv("EMULATED_GPU_SEED") ? atoi(getenv("EMULATED_GPU_SEED")) : 1;
    Grid launch{kernel,
                {grid[0], grid[1], grid[2]},
                {threads[0], threads[1], threads[2]},
                blocks_of_cluster,
                dynamic,
                parameters,
                std::minstd_rand(seed)};
    launch.run();
}
