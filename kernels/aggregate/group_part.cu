// Partitions rows so that those of neighbouring groups are contiguous (values go along, as by GFTR: [W] 4.1.2. It is
// not [W]'s PGB, 4.3: no table for each partition in shared memory). The next step, group_table by hashed keys,
// group_dense or group_global by ids, then works on one partition's share of the directory and of the results at a time,
// which fits in L2. A pass moves keys and one column; more columns need more passes over the same keys, whose rows all
// come in the same order.
#include "aggregate/group_part.cuh"
#include "keys/sort_histogram.cuh"

template <class Key>
__device__ __forceinline__ void part_starts(const Key* keys, u32 n, Digits digits, u32* starts, u32* blocks_done) {
    __shared__ u32 counts[DIGITS];
    __shared__ bool last_block;
    counts[threadIdx.x] = 0;
    __syncthreads();
    each_row_in_turn(
        n, [&](u32 i) { return keys[i]; }, [&](u32, Key key) { atomicAdd(&counts[digits.of(key)], 1u); });
    __syncthreads();
    if (counts[threadIdx.x] != 0) {
        atomicAdd(&starts[threadIdx.x], counts[threadIdx.x]);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last_block = atomicAdd(blocks_done, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last_block && threadIdx.x < WARP) {
        counts_to_starts(starts);
    }
}

// The beginnings of the 256 partitions. Bound: the keys read once, and a shared-memory atomic a row. Launch: blocks of
// 256, a grid of any size (8 blocks a multiprocessor); starts[256] and *blocks_done are zeroed first.
extern "C" __global__ void __launch_bounds__(BLOCK) group_part_starts_u32(
    const u32* keys, u32 n, u32 hashed, u32 seed_or_first_key, u32 first_bit, u32* starts, u32* blocks_done) {
    part_starts(keys, n, Digits{hashed, seed_or_first_key, first_bit}, starts, blocks_done);
}

extern "C" __global__ void __launch_bounds__(BLOCK) group_part_starts_u64(
    const u64* keys, u32 n, u32 hashed, u32 seed_or_first_key, u32 first_bit, u32* starts, u32* blocks_done) {
    part_starts(keys, n, Digits{hashed, seed_or_first_key, first_bit}, starts, blocks_done);
}

// One pass: moves keys and values to their partitions; rows of a partition keep their order. n is below 2^30. Bound:
// keys and values read and written once. Launch: blocks of 384, one for each PART_TILE rows (8832 if both have 4 bytes,
// otherwise 5760); lookback[256 * blocks] and *next_tile are zeroed first. Input and output must not overlap.
extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) group_part_u32_u32(
    const u32* keys_in, const u32* values_in, u32 n, u32 hashed, u32 seed_or_first_key, u32 first_bit, u32* keys_out, u32* values_out,
    const u32* starts, i32* lookback, i32* next_tile) {
    partition(
        keys_in, values_in, n, {hashed, seed_or_first_key, first_bit}, keys_out, values_out, starts, lookback, next_tile);
}

extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) group_part_u32_u64(
    const u32* keys_in, const u64* values_in, u32 n, u32 hashed, u32 seed_or_first_key, u32 first_bit, u32* keys_out, u64* values_out,
    const u32* starts, i32* lookback, i32* next_tile) {
    partition(
        keys_in, values_in, n, {hashed, seed_or_first_key, first_bit}, keys_out, values_out, starts, lookback, next_tile);
}

extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) group_part_u64_u32(
    const u64* keys_in, const u32* values_in, u32 n, u32 hashed, u32 seed_or_first_key, u32 first_bit, u64* keys_out, u32* values_out,
    const u32* starts, i32* lookback, i32* next_tile) {
    partition(
        keys_in, values_in, n, {hashed, seed_or_first_key, first_bit}, keys_out, values_out, starts, lookback, next_tile);
}

extern "C" __global__ void __launch_bounds__(ONESWEEP_THREADS, 2) group_part_u64_u64(
    const u64* keys_in, const u64* values_in, u32 n, u32 hashed, u32 seed_or_first_key, u32 first_bit, u64* keys_out, u64* values_out,
    const u32* starts, i32* lookback, i32* next_tile) {
    partition(
        keys_in, values_in, n, {hashed, seed_or_first_key, first_bit}, keys_out, values_out, starts, lookback, next_tile);
}
