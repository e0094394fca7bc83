// Prefix sums in one pass over memory, after Merrill & Garland, "Single-pass Parallel Prefix Scan with Decoupled
// Look-back" (2016).
//
// A block loads a tile and publishes its sum. Its first warp then adds up the sums of the tiles before it, from the
// nearest one backwards to one that has published its inclusive sum, and publishes the inclusive sum of this tile. Sums
// wrap around.
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

#include "shared/common.cuh"

typedef unsigned __int128 u128;

// What a tile has published: nothing yet (0), the sum of its own items, or the sum of all items up to its end.
constexpr u32 OWN_SUM = 1;
constexpr u32 SUM_TO_END = 2;

// The published words of all tiles: a value in pieces of 32 bits, each in its own word below the tag. A word is written
// in one access, so a value whose words agree on the tag is complete, and no fence is needed.
template <class T>
struct Published {
    static constexpr u32 PIECES = sizeof(T) / 4;
    volatile u64* words;

    __device__ __forceinline__ void write(u32 tile, u32 tag, T value) {
#pragma unroll
        for (u32 i = 0; i < PIECES; ++i) {
            words[tile * PIECES + i] = u64(tag) << 32 | u32(value >> (32 * i));
        }
    }

    // False if nothing is published, or if the tile is just replacing its own sum.
    __device__ __forceinline__ bool read(u32 tile, u32& tag, T& value) {
        u64 read[PIECES];
#pragma unroll
        for (u32 i = 0; i < PIECES; ++i) {
            read[i] = words[tile * PIECES + i];
        }
        tag = u32(read[0] >> 32);
        value = 0;
        bool whole = tag != 0;
#pragma unroll
        for (u32 i = 0; i < PIECES; ++i) {
            whole = whole && u32(read[i] >> 32) == tag;
            value |= T(u32(read[i])) << (32 * i);
        }
        return whole;
    }
};

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
    for (u32 lanes = 16; lanes > 0; lanes /= 2) {
        T other = 0;
#pragma unroll
        for (u32 i = 0; i < sizeof(T) / 4; ++i) {
            other |= T(__shfl_xor_sync(~0u, u32(value >> (32 * i)), lanes)) << (32 * i);
        }
        value += other;
    }
    return value;
}

// Publishes the given sum of a tile, and returns the sum of all tiles before it. Called by the first warp.
template <class T>
struct LookBack {
    u32 tile;
    Published<T> published;

    __device__ __forceinline__ T operator()(T own) {
        const i32 lane = threadIdx.x % 32;
        if (tile == 0) {
            if (lane == 0) {
                published.write(0, SUM_TO_END, own);
            }
            return 0;
        }
        if (lane == 0) {
            published.write(tile, OWN_SUM, own);
        }
        T before = 0;
        u32 ends = 0;
        for (i32 nearest = i32(tile) - 1; ends == 0; nearest -= 32) {
            const i32 earlier = nearest - lane;
            u32 tag = SUM_TO_END;
            T value = 0;
            while (earlier >= 0 && !published.read(earlier, tag, value)) {
                // Polls by all blocks of a large grid would slow down the very stores that they wait for.
                if (gridDim.x > 512) {
                    __nanosleep(300);
                }
            }
            ends = __ballot_sync(~0u, tag == SUM_TO_END);
            const i32 last = ends == 0 ? 31 : __ffs(ends) - 1;
            before += warp_sum(lane <= last ? value : T(0));
        }
        if (lane == 0) {
            published.write(tile, SUM_TO_END, before + own);
        }
        return before;
    }
};

// The first words of a scan's state: the number of tiles begun, in a cache line of its own.
constexpr u32 STATE_HEADER = 16;

// Scans `n` items into `results` sums: n, or n + 1 with the total, which is the exclusive sum of one item more.
template <class In, class T, u32 THREADS, u32 ITEMS, bool INCLUSIVE>
__device__ __forceinline__ void scan(const In* in, u32 n, T* out, u32 results, u64* state) {
    using Load = cub::BlockLoad<In, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<T, THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    using Store = cub::BlockStore<T, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
        typename Store::TempStorage store;
    } shared;
    __shared__ u32 shared_tile;

    // Tiles are numbered in the order in which blocks start, so that all earlier tiles are running or done.
    if (threadIdx.x == 0) {
        shared_tile = atomicAdd(reinterpret_cast<u32*>(state), 1);
    }
    __syncthreads();
    const u32 tile = shared_tile;
    const u32 begin = tile * (THREADS * ITEMS);
    const bool whole = n - begin >= THREADS * ITEMS;

    In items[ITEMS];
    if (whole) {
        Load(shared.load).Load(in + begin, items);
    } else {
        Load(shared.load).Load(in + begin, items, n - begin, In(0));
    }
    __syncthreads();

    T sums[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; ++i) {
        sums[i] = items[i];
    }
    LookBack<T> look_back{tile, {state + STATE_HEADER}};
    if (INCLUSIVE) {
        Scan(shared.scan).InclusiveSum(sums, sums, look_back);
    } else {
        Scan(shared.scan).ExclusiveSum(sums, sums, look_back);
    }
    __syncthreads();

    if (whole) {
        Store(shared.store).Store(out + begin, sums);
    } else {
        Store(shared.store).Store(out + begin, sums, results - begin);
    }
}

constexpr u32 SCAN_THREADS = 256;

// Launch of each scan: blocks of 256, one for each tile of 256 * ITEMS results; no dynamic shared memory. `state` is 16
// + PIECES * tiles words of 64 bits, zeroed before each launch; PIECES is 1 for sums of 32 bits, 2 for 64 and 4 for
// 128. Sums of the items' type may replace the items in place; otherwise input and output do not overlap. Pointers are
// aligned to their type (i128: 16 bytes).

// out[i] = in[0] + ... + in[i - 1] for i in 0..=n: the last is the total.
// Bound: 12n bytes moved. Launch: a block for each 4096 of the n + 1 results.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    scan_u32_u64(const u32* in, u32 n, u64* out, u64* state) {
    scan<u32, u64, SCAN_THREADS, 16, false>(in, n, out, n + 1, state);
}

// The same in 32 bits. Bound: 8n bytes moved. Launch: a block for each 4096 of the n + 1 results.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    scan_u32_u32_exclusive(const u32* in, u32 n, u32* out, u64* state) {
    scan<u32, u32, SCAN_THREADS, 16, false>(in, n, out, n + 1, state);
}

// out[i] = in[0] + ... + in[i] for i in 0..n. Bound: 8n bytes moved. Launch: a block for each 4096 of the n results.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    scan_u32_u32_inclusive(const u32* in, u32 n, u32* out, u64* state) {
    scan<u32, u32, SCAN_THREADS, 16, true>(in, n, out, n, state);
}

// Exclusive sums of i64 (two's complement makes unsigned sums the wrapping signed ones), n + 1 of them: the last is the
// total.
// Bound: 16n bytes moved. Launch: a block for each 3072 of the n + 1 results.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    scan_i64(const u64* in, u32 n, u64* out, u64* state) {
    scan<u64, u64, SCAN_THREADS, 12, false>(in, n, out, n + 1, state);
}

// Exclusive sums of i128, n + 1 of them: the last is the total.
// Bound: 32n bytes moved. Launch: a block for each 2048 of the n + 1 results.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    scan_i128(const u128* in, u32 n, u128* out, u64* state) {
    scan<u128, u128, SCAN_THREADS, 8, false>(in, n, out, n + 1, state);
}
