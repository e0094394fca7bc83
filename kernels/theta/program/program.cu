// Pair programs, over columns of both sides: the candidates of ranges that satisfy one are counted and written; listed
// pairs are filtered.
//
// Launch of all three: `threads` a block are 128 for programs of up to 2 registers, 64 up to 5, 32 up to 11; dynamic
// shared memory is `threads / 32 * registers * REGISTER_BYTES`. `fault` is set to 1 if a pair ends undecided.
#include "theta/program/program_walk.cuh"

constexpr u32 MOST_THREADS = 128;
// Resident blocks that leave a thread 128 registers.
constexpr u32 BLOCKS = 4;

extern __shared__ ulonglong2 memory[];

__device__ __forceinline__ Registers registers_of(const Program& program) {
    return {reinterpret_cast<u8*>(memory) + threadIdx.x / WARP * program.registers * REGISTER_BYTES};
}

// Counts a lane's matches; with `exists_only` the first one is enough.
struct CountPairs {
    bool exists_only;
    u32 count;

    __device__ __forceinline__ bool own(u32, u32 passing) {
        count += __popc(passing);
        return exists_only && count != 0;
    }

    __device__ __forceinline__ bool row(u32 lane, u32, u32 passing) {
        const u32 found = warp_sum(__popc(passing));
        count += threadIdx.x % WARP == lane ? found : 0;
        return exists_only && found != 0;
    }
};

// The number of candidates of positions `first .. first + positions` that match (`exists_only`: 1 or 0), `counts[i]`
// for position `first + i`. The span of a warp's ranges may be cut into `gridDim.y` slices, which are walked in
// parallel if positions are few: their counts are added up (zero them first), or with `by_slice` written separately,
// slice `s` at `counts[s * positions + i]`.
// Bound: about 6 instructions a lane for each pair and operation. Launch: grid (a block for each `threads` positions,
// slices).
extern "C" __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
program_count(const __grid_constant__ Program program, const u32* __restrict__ lo, const u32* __restrict__ hi, u32 first,
              u32 positions, u32 exists_only, u32 by_slice, u32* __restrict__ counts, u32* __restrict__ fault) {
    __shared__ Tape tape;
    __shared__ PlainTape plain;
    translate(program, tape, true);
    translate_plain(program, tape, plain);
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool none = i >= positions;
    const u32 probe = first + i;
    u32 next = none ? 0 : lo[probe];
    u32 end = none ? 0 : hi[probe];
    cut_to_slice(next, end);
    CountPairs count = {exists_only != 0, 0};
    if (walk_mostly_plain(program, tape, plain, registers_of(program), count_traversal(next, end), probe - threadIdx.x % WARP, next,
                          end, count)) {
        atomicOr(fault, 1);
    }
    const u32 found = exists_only != 0 ? min(count.count, 1u) : count.count;
    if (none) {
        return;
    }
    if (by_slice != 0) {
        counts[u64(blockIdx.y) * positions + i] = found;
    } else if (gridDim.y == 1 || (exists_only != 0 && found != 0)) {
        counts[i] = found;
    } else if (found != 0) {
        atomicAdd(&counts[i], found);
    }
}

// Writes a lane's matches from `out[at]` on, after the first `skip` and at most `left`.
struct WritePairs {
    const u32* build_rows;
    u32* out;
    u32 skip, at, left;

    __device__ __forceinline__ bool own(u32 base, u32 passing) {
        for (; passing != 0 && left != 0; passing &= passing - 1) {
            if (skip > 0) {
                skip--;
                continue;
            }
            out[at++] = __ldg(build_rows + base + (__ffs(passing) - 1));
            left--;
        }
        return left == 0;
    }

    __device__ __forceinline__ bool row(u32 lane, u32 base, u32 passing) {
        const u32 before = (1u << threadIdx.x % WARP) - 1;
        const u32 skipped = __shfl_sync(ALL_LANES, skip, lane);
        const u32 wanted = __shfl_sync(ALL_LANES, left, lane);
        u32* const target = out + __shfl_sync(ALL_LANES, at, lane);
        u32 found = 0;
#pragma unroll
        for (u32 p = 0; p < PAIRS; p++) {
            const u32 word = __ballot_sync(ALL_LANES, passing >> p & 1);
            // Wraps for matches that are skipped.
            const u32 number = found + __popc(word & before) - skipped;
            if ((passing >> p & 1) != 0 && number < wanted) {
                target[number] = __ldg(build_rows + base + p * WARP);
            }
            found += __popc(word);
        }
        const u32 written = min(found - min(found, skipped), wanted);
        if (threadIdx.x % WARP == lane) {
            skip -= min(found, skipped);
            at += written;
            left -= written;
        }
        return written == wanted;
    }
};

// The build rows of the matches numbered `from .. from + len`, which are the candidates that satisfy the program. Only
// positions `first .. first + positions` have matches there; `offsets` is indexed by probe position, with one more
// entry. With `gridDim.y` slices `slice_offsets` comes from program_count and zones_slice_offsets over the same
// positions and slices; otherwise it is not read.
// Bound: 4 bytes a match written, and the work of program_count. Launch: as program_count.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
program_expand(const __grid_constant__ Program program, const u32* __restrict__ lo, const u32* __restrict__ hi,
               const u64* __restrict__ offsets, const u32* __restrict__ slice_offsets, const u32* __restrict__ build_rows,
               u32 first, u32 positions, u64 from, u32 len, u32* __restrict__ out_build, u32* __restrict__ fault) {
    __shared__ Tape tape;
    translate(program, tape, true);
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool none = i >= positions;
    const u32 probe = first + i;
    u32 next = none ? 0 : lo[probe];
    u32 end = none ? 0 : hi[probe];
    cut_to_slice(next, end);

    u64 begin = 0, after = 0;
    if (!none) {
        begin = offsets[probe];
        after = offsets[probe + 1];
        if (blockIdx.y + 1 < gridDim.y) {
            after = begin + slice_offsets[u64(blockIdx.y + 1) * positions + i];
        }
        if (blockIdx.y > 0) {
            begin += slice_offsets[u64(blockIdx.y) * positions + i];
        }
    }
    const u64 from_here = max(begin, from);
    const u64 to_here = min(after, from + len);
    WritePairs write = {build_rows, out_build, 0, 0, 0};
    if (from_here < to_here) {
        write.skip = u32(from_here - begin);
        write.at = u32(from_here - from);
        write.left = u32(to_here - from_here);
    } else {
        next = end = 0;
    }
    if (walk(program, tape, registers_of(program), expand_traversal(next, end), probe - threadIdx.x % WARP, next, end, write)) {
        atomicOr(fault, 1);
    }
}

// Which of `n` listed pairs match: bit `i` of `keep` for the columns' rows `build_rows[i]` and `probe_rows[i]`.
// Bound: 8 bytes a pair and its values, which are random reads. Launch: a block for each `16 * threads` pairs.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
program_filter(const __grid_constant__ Program program, const u32* __restrict__ build_rows,
               const u32* __restrict__ probe_rows, u32 n, u32* __restrict__ keep, u32* __restrict__ fault) {
    __shared__ Tape tape;
    translate(program, tape, false);
    const u32 lane = threadIdx.x % WARP;
    const u32 first = (blockIdx.x * blockDim.x + threadIdx.x - lane) * PAIRS + lane;
    const u32 left = n > first ? n - first : 0;
    const u32 active = ALL_PAIRS >> (PAIRS - min((left + WARP - 1) / WARP, PAIRS));
    const ListedPairs pairs = {build_rows, probe_rows, first, n - 1};
    const Flags is = run(program, tape, registers_of(program), pairs);
    if ((is.fault & active) != 0) {
        atomicOr(fault, 1);
    }
    const u32 passing = is.truth & active;
    u32 mine = 0;
#pragma unroll
    for (u32 p = 0; p < PAIRS; p++) {
        const u32 word = __ballot_sync(ALL_LANES, passing >> p & 1);
        mine = lane == p ? word : mine;
    }
    const u32 word = first / WARP + lane;
    if (lane < PAIRS && word < (n + WARP - 1) / WARP) {
        keep[word] = mine;
    }
}
