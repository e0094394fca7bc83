// Counts the matches of two inequalities by a wavelet tree over the ranks of the tested keys (Grossi, Gupta & Vitter
// 2003), stored level by level. On each level ranks are ordered by the bits above, then by position. A block of 64
// positions has the bit planes of the next two bits, and the numbers of digits of its node before it that are below 1,
// 2 and 3: 32 bytes, the sector of a random read. Ranks are 0 .. n, so the node of the leading bits `t` begins at `t`
// followed by zeros.
//
// Construction: for each level whose nodes are longer than a tile of wavelet_finish, wavelet_digits, a scan of its
// counts, and wavelet_partition; then wavelet_finish for all levels below, and for the last 7 or 8 bits of all ranks.
#include "theta/wavelet_prefix.cuh"

constexpr u32 TREE_TILE = BLOCK / WARP * STRIP;
static_assert(TREE_TILE == 4096, "the host counts tiles");

// The number of ranks of each digit in each tile of 4096: counts[digit * tiles + tile].
// Bound: 4n bytes read. Launch: 256 threads, a block for each tile.
extern "C" __global__ void __launch_bounds__(BLOCK)
wavelet_digits(const u32* __restrict__ ranks, u32 n, u32 shift, u32* __restrict__ counts) {
    __shared__ Counts of_warps[BLOCK / WARP];
    const u32 first = blockIdx.x * TREE_TILE + threadIdx.x;
    u32 rank[STEPS];
#pragma unroll
    for (u32 k = 0; k < STEPS; k++) {
        rank[k] = ranks[min(first + k * BLOCK, n - 1)];
    }
    Counts mine = 0;
#pragma unroll
    for (u32 k = 0; k < STEPS; k++) {
        mine += first + k * BLOCK < n ? Counts(1) << (16 * (rank[k] >> shift & 3)) : 0;
    }
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        mine += __shfl_xor_sync(ALL_LANES, mine, distance);
    }
    if (threadIdx.x % WARP == 0) {
        of_warps[threadIdx.x / WARP] = mine;
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        Counts all = 0;
        for (u32 warp = 0; warp < BLOCK / WARP; warp++) {
            all += of_warps[warp];
        }
        counts[threadIdx.x * gridDim.x + blockIdx.x] = count_of(all, threadIdx.x);
    }
}

// Orders the ranks of each node by their digit, and writes the level's blocks. `sums` are the exclusive sums of the
// counts of wavelet_digits. Nodes have whole tiles: `shift` is at least 10.
// Bound: 8.5n bytes moved. Launch: 256 threads, a block for each tile of 4096.
extern "C" __global__ void __launch_bounds__(BLOCK)
wavelet_partition(const u32* __restrict__ ranks, u32 n, u32 shift, const u32* __restrict__ sums, u32* __restrict__ out,
                  uint4* __restrict__ blocks) {
    __shared__ Counts of_warps[BLOCK / WARP];
    __shared__ u32 before_tile[4];
    __shared__ u32 staged[TREE_TILE];
    const u32 warp = threadIdx.x / WARP;
    const u32 lane = threadIdx.x % WARP;
    const u32 tile_first = blockIdx.x * TREE_TILE;
    const u32 first = tile_first + warp * STRIP;
    const u32 count = left_of(n, first, STRIP);
    Strip strip;
#pragma unroll
    for (u32 k = 0; k < STEPS; k++) {
        strip.ranks[k] = ranks[min(first + k * WARP + lane, n - 1)];
    }
    if (threadIdx.x < 4) {
        const u32 node_tile = tile_first >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS) >> 12;
        const u32* const of_digit = sums + threadIdx.x * gridDim.x;
        before_tile[threadIdx.x] = of_digit[blockIdx.x] - of_digit[node_tile];
    }
    strip.read_digits(shift, count);
    if (lane == 0) {
        of_warps[warp] = strip.total;
    }
    __syncthreads();

    Counts before_strip = 0, of_tile = 0;
#pragma unroll
    for (u32 w = 0; w < BLOCK / WARP; w++) {
        before_strip += w < warp ? of_warps[w] : 0;
        of_tile += of_warps[w];
    }
    const uint3 inside = below_edges(before_strip);
    const u32 zeros = before_tile[0], ones = before_tile[1], twos = before_tile[2];
    strip.write_blocks(blocks, first, n, make_uint3(zeros + inside.x, zeros + ones + inside.y, zeros + ones + twos + inside.z));

    // The beginning of each digit in the tile, in order, so that a warp's stores are contiguous runs.
    const uint3 edges = below_edges(of_tile);
    const Counts starts = Counts(edges.x) << 16 | Counts(edges.y) << 32 | Counts(edges.z) << 48;
    strip.each(count, [&](u32 k, u32 digit, u32 number) {
        staged[count_of(starts + before_strip, digit) + number] = strip.ranks[k];
    });
    __syncthreads();
    const u32 in_tile = left_of(n, tile_first, TREE_TILE);
#pragma unroll 4
    for (u32 i = threadIdx.x; i < in_tile; i += BLOCK) {
        const u32 rank = staged[i];
        const u32 digit = rank >> shift & 3;
        out[(rank >> shift << shift) + before_tile[digit] + i - count_of(starts, digit)] = rank;
    }
}

// The maximum number of threads of a block, and the ranks of its node.
constexpr u32 FINISH_THREADS = 512;
constexpr u32 FINISH_NODE = FINISH_THREADS / WARP * STRIP;

// All levels below nodes of 2^node_bits ranks, in shared memory, and the low bits of all ranks below them. `levels`
// begins with the first of these levels; each has ceil(n / 64) blocks. Node and low bits are 12 and 8, or 13 and 7.
// Bound: 4n bytes read, n bytes and n / 2 a level written. Launch: 2^node_bits / 16 threads, a block for each node.
extern "C" __global__ void __launch_bounds__(FINISH_THREADS)
wavelet_finish(const u32* __restrict__ ranks, u32 n, u32 node_bits, u32 low_bits, uint4* __restrict__ levels,
               u8* __restrict__ low) {
    __shared__ Counts of_warps[FINISH_THREADS / WARP];
    __shared__ u16 ordered[FINISH_NODE];
    const u32 warp = threadIdx.x / WARP;
    const u32 lane = threadIdx.x % WARP;
    const u32 node_first = blockIdx.x << node_bits;
    const u32 strip_first = warp * STRIP;
    const u32 count = left_of(n, node_first + strip_first, STRIP);
    Strip strip;
#pragma unroll
    for (u32 k = 0; k < STEPS; k++) {
        strip.ranks[k] = ranks[min(node_first + strip_first + k * WARP + lane, n - 1)] - node_first;
    }
    for (u32 shift = node_bits - DIGIT_BITS;; shift -= DIGIT_BITS) {
        strip.read_digits(shift, count);
        if (lane == 0) {
            of_warps[warp] = strip.total;
        }
        // Also: all reads of the words that are overwritten below are done.
        __syncthreads();
        const u32 first_warp = warp & ~((1u << (shift + DIGIT_BITS)) / STRIP - 1);
        Counts before_strip = 0;
        for (u32 w = first_warp; w < warp; w++) {
            before_strip += of_warps[w];
        }
        strip.write_blocks(levels, node_first + strip_first, n, below_edges(before_strip));
        strip.each(count, [&](u32 k, u32 digit, u32 number) {
            const u32 rank = strip.ranks[k];
            ordered[(rank >> shift << shift) + count_of(before_strip, digit) + number] = u16(rank);
        });
        __syncthreads();
        if (shift == low_bits) {
            break;
        }
        levels += (n + PLANE - 1) / PLANE * 2;
#pragma unroll
        for (u32 k = 0; k < STEPS; k++) {
            strip.ranks[k] = k * WARP + lane < count ? ordered[strip_first + k * WARP + lane] : 0;
        }
    }

    // Sixteen for each thread, written in one access; nothing is read past the last.
    const u32 mine = left_of(n, node_first + threadIdx.x * 16, 16);
    u32 bytes[4] = {0, 0, 0, 0};
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        const u32 byte = i < mine ? ordered[threadIdx.x * 16 + i] & ((1u << low_bits) - 1) : 0;
        bytes[i / 4] |= byte << (8 * (i % 4));
    }
    if (mine > 0) {
        reinterpret_cast<uint4*>(low + node_first)[threadIdx.x] = make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
    }
}

// For each probe position the number of build positions `lo .. hi` with a rank below its bound, or with `others` not 0
// the number of those whose rank is not below it. A prefix that is empty, or covers all of its node, reads nothing
// more: a prefix that begins at 0 costs nothing.
// Bound: for each end of a range a sector of 32 bytes a level, and a line or two of low bits. Neighbours have
// neighbouring ranges, so the sectors of the upper levels, one for each node, are mostly in L2. Launch: 256 threads, a
// thread for each position.
extern "C" __global__ void __launch_bounds__(BLOCK)
wavelet_count(const uint4* __restrict__ levels, const u8* __restrict__ low, u32 n, u32 bits, u32 low_bits,
              const u32* __restrict__ lo, const u32* __restrict__ hi, const u32* __restrict__ bounds, u32 others, u32 m,
              u32* __restrict__ counts) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    const bool mine = i < m;
    const u32 from = mine ? lo[i] : 0;
    const u32 to = mine ? hi[i] : 0;
    u32 bound = mine ? bounds[i] : 0;
    Prefix left = {from, 0}, right = {to, 0};
    if (bound >= n) {
        left = {0, from};
        right = {0, to};
        bound = 0;
    }
    u32 start = 0, length = n;
    for (u32 shift = bits - DIGIT_BITS;; shift -= DIGIT_BITS) {
        left.take_whole(start, length, bound);
        right.take_whole(start, length, bound);
        if (!__any_sync(ALL_LANES, (left.end | right.end) != 0)) {
            break;
        }
        const Planes of_left = Planes::at(levels, start, left.end);
        const Planes of_right = Planes::at(levels, start, right.end);
        const u32 digit = bound >> shift & 3;
        of_left.step(digit, left);
        of_right.step(digit, right);
        start += digit << shift;
        length = min(length - (digit << shift), 1u << shift);
        if (shift == low_bits) {
            const u32 rest = bound & ((1u << low_bits) - 1);
            count_low(low, start, rest, left);
            count_low(low, start, rest, right);
            break;
        }
        levels += (n + PLANE - 1) / PLANE * 2;
    }
    if (mine) {
        const u32 below = right.count - left.count;
        counts[i] = others != 0 ? to - from - below : below;
    }
}
