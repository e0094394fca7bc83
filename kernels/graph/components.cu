// Connected components of pairs of nodes, by the lock-free union-find of ECL-CC (J. Jaiganesh, M. Burtscher. A High-Performance
// Connected Components Implementation for GPUs. HPDC 2018). CPU counterpart: src/device/host/graph/components.rs.
//
// `parents` has a tree for each set of nodes. A parent is never above its child in number, so that a root is the least node of its
// set, and no order of writes makes a cycle. A node that is no root never is one again, and what is written as its parent is always
// one of its ancestors: loads may see any earlier one. Only a root gets its first parent by compare-and-swap.
#include "shared/common.cuh"
#include "shared/tile.cuh"

// The root of a node's tree, at the time of some load. Path halving: each node on the way gets its grandparent as its parent.
__device__ __forceinline__ u32 root_of(u32* parents, u32 node) {
    u32 parent = look_now(parents + node);
    while (parent != node) {
        const u32 grandparent = look_now(parents + parent);
        if (grandparent == parent) {
            return parent;
        }
        *static_cast<volatile u32*>(parents + node) = grandparent;
        node = parent;
        parent = grandparent;
    }
    return node;
}

// Merges the trees of two nodes: the higher root gets the lower one for a parent, unless another thread was sooner.
__device__ __forceinline__ void connect(u32* parents, u32 a, u32 b) {
    a = root_of(parents, a);
    b = root_of(parents, b);
    while (a != b) {
        const u32 high = max(a, b);
        const u32 low = min(a, b);
        const u32 seen = atomicCAS(parents + high, high, low);
        if (seen == high) {
            return;
        }
        a = root_of(parents, seen);
        b = root_of(parents, low);
    }
}

// Merges the trees of each pair of nodes. Pairs with a number that is no node, such as NO_GROUP, connect nothing.
// Bound: 8 bytes a pair; random reads of parents and writes of them. Launch: blocks of 256, a block for each 1024 pairs.
extern "C" __global__ void __launch_bounds__(BLOCK)
    components_connect(const u32* __restrict__ left, const u32* __restrict__ right, u32* parents, u32 nodes, u32 n) {
    each_row(
        n, [=](u32 i) { return make_uint2(left[i], right[i]); },
        [=](u32, uint2 pair) {
            if (pair.x < nodes && pair.y < nodes && pair.x != pair.y) {
                connect(parents, pair.x, pair.y);
            }
        });
}

// Puts each node below its root, and adds the number of roots to `roots`, which must be zeroed. A thread writes its own node alone:
// what another one wrote there late could be an ancestor below the root.
// Bound: 8 bytes a node; random reads of parents. Launch: blocks of 256, a block for each 1024 nodes.
extern "C" __global__ void __launch_bounds__(BLOCK) components_flatten(u32* parents, u32* roots, u32 nodes) {
    u32 mine = 0;
    each_row(
        nodes, [](u32 i) { return i; },
        [&](u32 i, u32) {
            u32 parent = look_now(parents + i);
            for (;;) {
                const u32 grandparent = look_now(parents + parent);
                if (grandparent == parent) {
                    break;
                }
                *static_cast<volatile u32*>(parents + i) = grandparent;
                parent = grandparent;
            }
            mine += parent == i;
        });
#pragma unroll
    for (u32 lanes = WARP / 2; lanes > 0; lanes /= 2) {
        mine += __shfl_xor_sync(ALL_LANES, mine, lanes);
    }
    if (threadIdx.x % WARP == 0 && mine > 0) {
        atomicAdd(roots, mine);
    }
}

// The least number of each item's rows, `first`, whose bits must be set. Items are numbered below `items`; other numbers, such as
// NO_GROUP, are skipped.
// Bound: 4 bytes a row; random reads, and an atomic where a row is less than what was seen. Launch: blocks of 256, a block for each
// 1024 rows.
extern "C" __global__ void __launch_bounds__(BLOCK)
    components_first_rows(const u32* __restrict__ of_row, u32* first, u32 items, u32 n) {
    each_row(
        n, [=](u32 i) { return of_row[i]; },
        [=](u32 i, u32 item) {
            if (item < items && look_now(first + item) > i) {
                atomicMin(first + item, i);
            }
        });
}

// The least position of each root's nodes in `order`, at the root: as components_first_rows of the root of each position's node.
// `least` has a word for each node, whose bits must be set.
// Bound: 4 bytes a position; two random reads, and an atomic where a position is less than what was seen. Launch: blocks of 256, a
// block for each 1024 positions.
extern "C" __global__ void __launch_bounds__(BLOCK)
    components_least(const u32* __restrict__ roots, const u32* __restrict__ order, u32* least, u32 nodes) {
    each_row(
        nodes, [=](u32 i) { return roots[order[i]]; },
        [=](u32 i, u32 root) {
            if (look_now(least + root) > i) {
                atomicMin(least + root, i);
            }
        });
}

// The node at the least position of each node's component.
// Bound: 8 bytes a node; two random reads. Launch: blocks of 256, a block for each 1024 nodes.
extern "C" __global__ void __launch_bounds__(BLOCK)
    components_clusters(const u32* __restrict__ roots, const u32* __restrict__ order, const u32* __restrict__ least,
                        u32* __restrict__ out, u32 nodes) {
    each_row(
        nodes, [=](u32 i) { return order[least[roots[i]]]; }, [=](u32 i, u32 node) { out[i] = node; });
}
