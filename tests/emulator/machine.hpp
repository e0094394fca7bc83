// Executes kernels, a warp at a time, by rows of 32 lanes; checks every address.
#pragma once
#include "instruction.hpp"
#include <cstring>

struct Block;

/// The shared memory of the blocks of a cluster, by rank; null once the block has ended.
struct Cluster {
    std::vector<u8 *> shared;
    std::vector<Block *> blocks;
};

/// A copy to shared memory that nobody has waited for.
struct Copy {
    int lane;
    u8 *to;
    u32 bytes;
    u8 content[16];
};

/// What instructions see: the registers of a warp, and where its memory is.
struct Machine {
    u64 *registers;
    const u64 *constants;
    const u8 *parameters;
    u8 *shared;
    u32 shared_bytes;
    u8 *local;
    u32 local_bytes;
    const Kernel *kernel;
    u32 block, warp;
    const Cluster *cluster;
    std::vector<Copy> copies;
    const u64 *read(Row row) const { return row >= 0 ? registers + (size_t)row * 32 : constants + (size_t)~row * 32; }
    u64 *write(Row row) { return registers + (size_t)row * 32; }
    [[noreturn]] void fault(const Instruction &, const std::string &what) const;
};

/// Runs a kernel to its end, in clusters of so many blocks.
void run(const Kernel &, const u32 grid[3], const u32 block[3], u32 blocks_of_cluster, u32 dynamic_shared, const u8 *parameters);
