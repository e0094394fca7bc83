// MMJoin ([B] 6.3.1): the overlaps in frequent (heavy) elements as a product of binary matrices, those in rare (light) ones from the sets themselves.
//
// Elements are numbered by ascending frequency, so heavy ones are those from a number on, and the light elements of a set are its first ones. Two sets
// share at most min(a, b) of a and b light elements. So the product and these numbers reject nearly all pairs; signatures of the light elements reject
// most others, and the light elements of the rest are merged. [B] counts light elements by postings for all pairs instead.
#pragma once

#include "sets/techniques/set_matrix.cuh"
#include "sets/techniques/set_signature.cuh"

// Words of 64 bits of a signature of light elements.
constexpr u32 LIGHT_WORDS = 2;

// The light elements of the sets of one side: their number, and their signature.
struct Light {
    const u32* counts;
    const u64* signatures;
};

// Two sets that share `heavy` heavy elements.
struct HeavyPair {
    u32 r, s, heavy;
};

// Pairs of one warp that wait for their light elements to be merged: fewer than one for each lane between two calls.
struct HeavyQueue {
    HeavyPair* waiting;
    u32 count;
    u32 verified;

    __device__ __forceinline__ void merge(const Join& join, const Light& probe, const Light& build, bool mine, const HeavyPair& pair) const {
        Overlap overlap = {nullptr, nullptr, 0, 0, NONE, NONE};
        if (mine) {
            const u32 need = join.measure.need(join.probe.sizes[pair.r], join.build.sizes[pair.s]);
            overlap = {join.probe.of(pair.r), join.build.of(pair.s), probe.counts[pair.r], build.counts[pair.s],
                       need - min(need, pair.heavy), NONE};
        }
        bool match = overlap.is_short() && overlap.merged();
        for (u32 left = __ballot_sync(ALL_LANES, !overlap.is_short()); left != 0; left &= left - 1) {
            const u32 lane = __ffs(left) - 1;
            const bool found = overlap.of_lane(lane).searched();
            match = lane == threadIdx.x % WARP ? found : match;
        }
        join.take(match, pair.r, pair.s);
    }

    // All lanes call; `mine` says which have a pair.
    __device__ __forceinline__ void push(const Join& join, const Light& probe, const Light& build, bool mine, const HeavyPair& pair) {
        const u32 lane = threadIdx.x % WARP;
        const u32 coming = __ballot_sync(ALL_LANES, mine);
        if (coming == 0) {
            return;
        }
        if (mine) {
            waiting[count + __popc(coming & ((1u << lane) - 1))] = pair;
        }
        __syncwarp();
        count += __popc(coming);
        if (count >= WARP) {
            count -= WARP;
            verified += WARP;
            merge(join, probe, build, true, waiting[count + lane]);
            __syncwarp();
        }
    }

    __device__ __forceinline__ void finish(const Join& join, const Light& probe, const Light& build) {
        const u32 lane = threadIdx.x % WARP;
        merge(join, probe, build, lane < count, waiting[lane]);
        verified += count;
        if (lane == 0 && verified != 0) {
            atomicAdd(&join.matches.totals[1], u64(verified));
        }
    }
};

// Tests a thread's 8 x 8 pairs by the numbers of their heavy common elements, as take_tile.
template <typename Row, typename Column, typename Heavy>
__device__ __forceinline__ void queue_tile(const Join& join, const Light& probe, const Light& build, const Tile& tile, const u32* light_r,
                                           const u32* light_s, const u32* __restrict__ lo, const u32* __restrict__ hi, HeavyQueue& queue,
                                           Row row, Column column, Heavy heavy) {
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        const u32 need = tile.needs[row(i)];
        const u32 few = light_r[row(i)];
        u32 left = 0;
#pragma unroll
        for (u32 j = 0; j < EACH; j++) {
            left |= u32(heavy(i, j) + min(few, light_s[column(j)]) >= need) << j;
        }
        left = need == NONE ? 0 : left;
#pragma unroll 1
        for (; __any_sync(ALL_LANES, left != 0); left &= left - 1) {
            const u32 bit = left == 0 ? 0 : __ffs(left) - 1;
            const u32 r = tile.first_r + row(i);
            const u32 s = tile.first_s + column(bit);
            u32 o = 0;
#pragma unroll
            for (u32 j = 0; j < EACH; j++) {
                o = j == bit ? heavy(i, j) : o;
            }
            bool mine = left != 0 && s < join.build.n && lo[r] <= s && s < hi[r];
            if (mine && o < need) {
                const Signature<LIGHT_WORDS> of_r(probe.signatures, r), of_s(build.signatures, s);
                const u32 most = min(few - of_r.bits_without(of_s), light_s[column(bit)] - of_s.bits_without(of_r));
                mine = o + most >= need;
            }
            queue.push(join, probe, build, mine, {r, s, o});
        }
    }
}

// The matches of the block's 128 probe sets with the build sets of its slice.
template <typename By>
__device__ __forceinline__ void multiply_heavy(const Join& join, u32 words, const u32* __restrict__ probe_rows,
                                               const u32* __restrict__ build_rows, const Light& probe_light, const Light& build_light,
                                               const u32* __restrict__ lo, const u32* __restrict__ hi) {
    __shared__ BitRows probe;
    __shared__ BitRows build;
    __shared__ u32 light_r[SIDE];
    __shared__ u32 light_s[SIDE];
    __shared__ HeavyPair waiting[BLOCK / WARP][2 * WARP];
    const u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 row = warp % 2 * WARP_ROWS, column = warp / 2 * WARP_COLUMNS;
    HeavyQueue queue = {waiting[warp], 0, 0};
    each_build_tile(join, lo, hi, [&](const Tile& tile) {
        if (threadIdx.x < SIDE) {
            light_r[threadIdx.x] = probe_light.counts[min(tile.first_r + threadIdx.x, join.probe.n - 1)];
            light_s[threadIdx.x] = build_light.counts[min(tile.first_s + threadIdx.x, join.build.n - 1)];
        }
        Sums sums = {};
        for (u32 from = 0; from < words; from += DEPTH) {
            load_rows(probe, probe_rows, words, tile.first_r, join.probe.n, from);
            load_rows(build, build_rows, words, tile.first_s, join.build.n, from);
            __syncthreads();
#pragma unroll 1
            for (u32 word = 0; word < DEPTH; word += By::WORDS) {
                By::add(sums, probe, build, row, column, word);
            }
            __syncthreads();
        }
        const auto row_of = [&](u32 i) { return row + i * PRODUCT + lane / 4; };
        const auto column_of = [&](u32 j) { return column + j / 2 * PRODUCT + lane % 4 * 2 + j % 2; };
        queue_tile(join, probe_light, build_light, tile, light_r, light_s, lo, hi, queue, row_of, column_of,
                   [&](u32 i, u32 j) { return sums[i][j / 2][j % 2]; });
    });
    queue.finish(join, probe_light, build_light);
}

// The matches of all probe sets, each within its window lo .. hi of build sets. Rows are bits of the heavy elements, of `words` words, a multiple of 4,
// and aligned to 16 bytes.
// Bound: as set_matrix_* with the heavy elements as the universe, and for each pair that these do not reject two random reads of a signature; a merge of
// both sets' light elements for the rest. Launch: as set_matrix_*.
#define MMJOIN(name, by)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK, 2) set_mmjoin_##name(                                                 \
        const __grid_constant__ Join join, u32 words, const u32* __restrict__ probe_rows, const u32* __restrict__ build_rows, \
        const Light probe_light, const Light build_light, const u32* __restrict__ lo, const u32* __restrict__ hi) {           \
        multiply_heavy<by>(join, words, probe_rows, build_rows, probe_light, build_light, lo, hi);                            \
    }
