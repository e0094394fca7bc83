// Folds the candidates of ranges that satisfy a pair program: no match is written.
#include "theta/match_folds.cuh"
#include "theta/program/program_walk.cuh"

constexpr u32 MOST_THREADS = 128;
// Resident blocks that leave a thread 128 registers.
constexpr u32 BLOCKS = 4;

extern __shared__ ulonglong2 memory[];

// Folds a lane's matches, and counts them.
struct FoldPairs {
    AnyFold fold;
    AnyValue folded;
    u32 count;

    __device__ __forceinline__ bool own(u32 base, u32 passing) {
        count += __popc(passing);
        for (; passing != 0; passing &= passing - 1) {
            folded = fold.combine(folded, fold.at(base + (__ffs(passing) - 1)));
        }
        return false;
    }

    __device__ __forceinline__ bool row(u32 lane, u32 base, u32 passing) {
        AnyValue part = fold.zero();
        const u32 found = warp_sum(__popc(passing));
        for (; passing != 0; passing &= passing - 1) {
            part = fold.combine(part, fold.at(base + (__ffs(passing) - 1) * WARP));
        }
        for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
            part = fold.combine(part, shuffled(part, [=](u32 word) { return __shfl_xor_sync(ALL_LANES, word, distance); }));
        }
        if (threadIdx.x % WARP == lane) {
            folded = fold.combine(folded, part);
            count += found;
        }
        return false;
    }
};

// The folds of the values, by build position, of the candidates of positions `first .. first + positions` that match, and the numbers of these: those
// of slice `s` are at `s * positions` of both outputs. `kind`: that of AnyFold.
// Bound: the work of program_count, and a read and some instructions for each match. Launch: as program_count.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
program_fold(const __grid_constant__ Program program, const u32* __restrict__ lo, const u32* __restrict__ hi, u32 first, u32 positions,
             const void* __restrict__ values, u32 kind, AnyValue* __restrict__ folded, u32* __restrict__ counts) {
    __shared__ Tape tape;
    __shared__ PlainTape plain;
    translate(program, tape, true);
    translate_plain(program, tape, plain);
    const Registers registers = {reinterpret_cast<u8*>(memory) + threadIdx.x / WARP * program.registers * REGISTER_BYTES};
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool none = i >= positions;
    const u32 probe = first + i;
    u32 next = none ? 0 : lo[probe];
    u32 end = none ? 0 : hi[probe];
    cut_to_slice(next, end);
    FoldPairs fold = {{values, kind}, {}, 0};
    fold.folded = fold.fold.zero();
    // Each candidate was decided when they were counted.
    walk_mostly_plain(program, tape, plain, registers, count_traversal(next, end), probe - threadIdx.x % WARP, next, end, fold);
    if (!none) {
        folded[u64(blockIdx.y) * positions + i] = fold.folded;
        counts[u64(blockIdx.y) * positions + i] = fold.count;
    }
}
