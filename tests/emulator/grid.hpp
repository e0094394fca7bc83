// The blocks of a launch, their warps, and who waits for whom.
#pragma once
#include "machine.hpp"
#include <random>

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

struct Block {
    std::vector<Warp> warps;
    std::vector<u8> shared, local;
    std::shared_ptr<Cluster> cluster;
    u32 rank = 0, threads = 0;
    u32 waiting = 0, alive = 0;
};

/// A launch: its kernel, its blocks, and the random order in which they go on.
struct Grid {
    const Kernel &kernel;
    u32 grid[3], threads[3];
    u32 blocks_of_cluster, dynamic;
    const u8 *parameters;
    std::minstd_rand random;
    bool slept = false;

    /// All blocks, to their end.
    void run();

  private:
    /// Gives a block its threads, registers and memory.
    void start(Block &, u64 number, std::shared_ptr<Cluster>);

    // warp.cpp
    /// Lanes that go to `at`; groups at one instruction become one.
    static void add(Warp &, u32 at, u32 mask);
    void exit(Block &, Warp &, u32 mask);
    /// Lets a warp go on for some instructions; whether it did anything.
    bool go(Block &, Warp &, u32 most);

    // barrier.cpp
    /// All threads of a block that are alive have come to a barrier.
    void release(Block &);
    /// Whether all threads of a block that are alive have come to a barrier of its cluster.
    bool waits_for_cluster(const Block &);
    /// A block has come to a barrier of its cluster; who has ended is not waited for.
    void come(Block &);
    [[noreturn]] void stuck(Block &);
};
