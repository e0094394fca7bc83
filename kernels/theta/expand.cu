// Output rows from ranges: where output batches end, and the (probe row, build row) ids of one batch.
//
// `offsets` are the exclusive prefix sums of the match counts by probe position, one longer than these. They number the
// matches in the order (probe position, build position).
#include "theta/expand_tile.cuh"

// The end of a batch that begins at match `from`: the end of a position's matches, after at most `target` matches, or
// after at most `most` if a single position has more. `out`: the number of that match.
// Bound: 6 dependent loads at 10^8 positions. Launch: one block of 32 threads.
extern "C" __global__ void __launch_bounds__(WARP)
expand_piece_end(const u64* __restrict__ offsets, u32 positions, u64 from, u64 target, u64 most,
                 u64* __restrict__ out) {
    const u64 wanted = target > ~0ull - from ? ~0ull : from + target;
    const u64 allowed = max(most, target) > ~0ull - from ? ~0ull : from + max(most, target);
    const u32 at = warp_partition_point(0, positions + 1, [&](u32 i) { return offsets[i] <= wanted; });
    if (threadIdx.x == 0) {
        const u64 end = offsets[max(at, 1u) - 1];
        *out = end > from ? end : min(offsets[min(at, positions)], allowed);
    }
}

// The probe positions with matches in `from .. to`: `out[0] .. out[1]`.
// Bound: 12 dependent loads at 10^8 positions. Launch: one block of 32 threads; from < to <= the total.
extern "C" __global__ void __launch_bounds__(WARP)
expand_window(const u64* __restrict__ offsets, u32 positions, u64 from, u64 to, u32* __restrict__ out) {
    const u32 first = warp_partition_point(0, positions, [&](u32 p) { return offsets[p + 1] <= from; });
    const u32 end = warp_partition_point(first, positions, [&](u32 p) { return offsets[p] < to; });
    if (threadIdx.x == 0) {
        out[0] = first;
        out[1] = end;
    }
}

// One tile: the owning position of each match, then four matches a thread at a time.
template <bool WITH_BUILD>
__device__ __forceinline__ void expand_one(const Window& window, const Tile& tile, Owners& owners,
                                           const u32* __restrict__ lo, const u32* __restrict__ probe_rows,
                                           const u32* __restrict__ build_rows, u32* __restrict__ out_probe,
                                           u32* __restrict__ out_build) {
    const u32 aligned = tile.first_slot();
    mark_owners(window, tile, owners, [&](u32 position, u32 place, u32 shift) {
        owners.ids[place] = probe_rows[position];
        if (WITH_BUILD) {
            owners.bases[place] = lo[position] + shift;
        }
    });

    for (u32 slot = 4 * threadIdx.x; aligned + slot < tile.end_pairs; slot += 4 * BLOCK) {
        const u32 pair = aligned + slot;
        const uint2 two = *reinterpret_cast<const uint2*>(&owners.place[slot]);
        const u32 place[4] = {two.x & 0xFFFFu, two.x >> 16, two.y & 0xFFFFu, two.y >> 16};
        const bool whole = pair >= tile.pairs && pair + 4 <= tile.end_pairs;
        if (whole) {
            __stcs(reinterpret_cast<uint4*>(out_probe + pair),
                   make_uint4(owners.ids[place[0]], owners.ids[place[1]], owners.ids[place[2]], owners.ids[place[3]]));
            if (WITH_BUILD) {
                __stcs(reinterpret_cast<uint4*>(out_build + pair),
                       make_uint4(build_rows[owners.bases[place[0]] + slot], build_rows[owners.bases[place[1]] + slot + 1],
                                  build_rows[owners.bases[place[2]] + slot + 2],
                                  build_rows[owners.bases[place[3]] + slot + 3]));
            }
            continue;
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (pair + i >= tile.pairs && pair + i < tile.end_pairs) {
                out_probe[pair + i] = owners.ids[place[i]];
                if (WITH_BUILD) {
                    out_build[pair + i] = build_rows[owners.bases[place[i]] + slot + i];
                }
            }
        }
    }
    __syncthreads();
}

// This block's part of all tiles.
template <bool WITH_BUILD>
__device__ __forceinline__ void expand_share(const Window& all, u32 positions, const u32* __restrict__ lo,
                                             const u32* __restrict__ probe_rows,
                                             const u32* __restrict__ build_rows, u32* __restrict__ out_probe,
                                             u32* __restrict__ out_build) {
    __shared__ Owners owners;
    each_tile(all, positions, [&](const Window& window, const Tile& tile) {
        expand_one<WITH_BUILD>(window, tile, owners, lo, probe_rows, build_rows, out_probe, out_build);
    });
}

// The matches numbered `from .. from + len` of ranges: the probe row and the build row of each. Outputs are aligned to
// 16 bytes.
// Bound: 8 bytes written and 4 read for each match (from L2 where ranges overlap), 16 bytes a position. Launch: 256
// threads, a grid of any size: a block for each 4092 of `len` and the positions that may be in the window, at most 5 a
// multiprocessor.
extern "C" __global__ void __launch_bounds__(BLOCK)
expand_ranges(const u32* __restrict__ lo, const u32* __restrict__ probe_rows, const u32* __restrict__ build_rows,
              const u64* __restrict__ offsets, u32 positions, u64 from, u32 len, u32* __restrict__ out_probe,
              u32* __restrict__ out_build) {
    expand_share<true>({offsets, from, from + len, 0, 0}, positions, lo, probe_rows, build_rows, out_probe,
                       out_build);
}

// The probe row of each of the matches numbered `from .. from + len`.
// Bound: 4 bytes written for each match, 12 bytes a position. Launch: as expand_ranges.
extern "C" __global__ void __launch_bounds__(BLOCK)
expand_probe(const u32* __restrict__ probe_rows, const u64* __restrict__ offsets, u32 positions, u64 from, u32 len,
             u32* __restrict__ out_probe) {
    expand_share<false>({offsets, from, from + len, 0, 0}, positions, nullptr, probe_rows, nullptr, out_probe,
                        nullptr);
}
