// Folds the matches of probe positions under tests, as the walk down the tree of zones finds them: no match is written.
#include "theta/match_folds.cuh"
#include "theta/zones_walk.cuh"

// Folds a lane's matches, and counts them.
template <typename Fold>
struct FoldMatches {
    typedef typename Fold::Value Value;
    const Value* values;
    u32 n;
    // The values of a leaf, of this warp.
    Value* leaf;
    Value folded;
    u32 count;

    // One row after another, each by all lanes.
    __device__ __forceinline__ bool span(bool mine, u32 from, u32 to) {
        const u32 lane = threadIdx.x % WARP;
        count += mine ? to - from : 0;
        for (u32 rows = __ballot_sync(ALL_LANES, mine && from < to); rows != 0; rows &= rows - 1) {
            const u32 row = __ffs(rows) - 1;
            const u32 end = __shfl_sync(ALL_LANES, to, row);
            Value part = Fold::zero();
#pragma unroll 4
            for (u32 i = __shfl_sync(ALL_LANES, from, row) + lane; i < end; i += WARP) {
                part = Fold::combine(part, values[i]);
            }
            part = warp_fold<Fold>(part);
            folded = lane == row ? Fold::combine(folded, part) : folded;
        }
        return false;
    }

    // All lanes read one value at a time.
    __device__ __forceinline__ bool bits(bool, u32 first, u64 bits) {
        const u32 lane = threadIdx.x % WARP;
        count += __popcll(bits);
        __syncwarp();
#pragma unroll
        for (u32 half = 0; half < LEAF; half += WARP) {
            leaf[half + lane] = values[min(first + half + lane, n - 1)];
        }
        __syncwarp();
#pragma unroll
        for (u32 half = 0; half < LEAF; half += WARP) {
            const u32 word = u32(bits >> half);
            if (!__any_sync(ALL_LANES, word != 0)) {
                continue;
            }
#pragma unroll
            for (u32 k = 0; k < WARP; k++) {
                const Value value = leaf[half + k];
                if ((word >> k & 1) != 0) {
                    folded = Fold::combine(folded, value);
                }
            }
        }
        return false;
    }
};

// The folds of the values, by build position, of the matches of positions `first .. first + positions`, and the numbers of these: those of slice `s`
// are at `s * positions` of both outputs.
// Bound: the walk as in zones_count, and some 4 instructions a lane for each key of a leaf in which something matches. Launch: as zones_count.
#define ZONES_FOLD(name, Fold)                                                                                                \
    extern "C" __global__ void __launch_bounds__(WALKERS* WARP)                                                               \
        zones_fold_##name(const __grid_constant__ ZoneTests zones, const u32* __restrict__ lo, const u32* __restrict__ hi,    \
                          u32 first, u32 positions, const Fold::Value* __restrict__ values, AnyValue* __restrict__ folded,    \
                          u32* __restrict__ counts) {                                                                         \
        __shared__ Words words_of_warps[WALKERS];                                                                             \
        __shared__ __align__(16) unsigned char leaves[WALKERS][LEAF * sizeof(Fold::Value)];                                   \
        Words& words = words_of_warps[threadIdx.x / WARP];                                                                    \
        const u32 i = blockIdx.x * (WALKERS * WARP) + threadIdx.x;                                                            \
        const bool none = i >= positions;                                                                                     \
        u32 next = none ? 0 : lo[first + i];                                                                                  \
        u32 end = none ? 0 : hi[first + i];                                                                                   \
        cut_to_slice(next, end);                                                                                              \
        load_words(zones, first + i, none, words);                                                                            \
        FoldMatches<Fold> fold = {values, zones.n, reinterpret_cast<Fold::Value*>(leaves[threadIdx.x / WARP]), Fold::zero(), 0}; \
        walk(zones, words, next, end, fold);                                                                                  \
        if (!none) {                                                                                                          \
            folded[u64(blockIdx.y) * positions + i] = any_value(fold.folded);                                                 \
            counts[u64(blockIdx.y) * positions + i] = fold.count;                                                             \
        }                                                                                                                     \
    }

ZONES_FOLD(u32, Sums<u32>)
ZONES_FOLD(u64, Sums<u64>)
ZONES_FOLD(u128, Sums<u128>)
ZONES_FOLD(f64, Sums<f64>)
ZONES_FOLD(extreme, Extremes)

// Combines the folds and the counts of `slices` slices, and stores them at the rows of positions `first .. first + positions`: of an extreme its row.
// Bound: 20 bytes a slice and position. Launch: 256 threads, a thread for each position.
extern "C" __global__ void __launch_bounds__(BLOCK)
zones_fold_place(const AnyValue* __restrict__ folded, const u32* __restrict__ counts, u32 slices, u32 kind, u32 first, u32 positions,
                 const u32* __restrict__ rows, void* __restrict__ out, u32* __restrict__ out_counts) {
    const u32 i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= positions) {
        return;
    }
    const AnyFold fold = {nullptr, kind};
    AnyValue all = fold.zero();
    u32 count = 0;
    for (u32 slice = 0; slice < slices; slice++) {
        const u64 at = u64(slice) * positions + i;
        all = fold.combine(all, folded[at]);
        count += counts[at];
    }
    const u32 row = rows[first + i];
    out_counts[first + i] = count;
    switch (kind) {
        case AnyFold::SUM_U32: static_cast<u32*>(out)[row] = value_of<u32>(all); break;
        case AnyFold::SUM_U64:
        case AnyFold::SUM_F64: static_cast<u64*>(out)[row] = all.low; break;
        case AnyFold::SUM_U128: static_cast<AnyValue*>(out)[row] = all; break;
        default: static_cast<u32*>(out)[row] = value_of<KeyedRow>(all).row; break;
    }
}
