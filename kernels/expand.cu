// Pairs from ranges: where pieces of output end, and the pairs of one piece.
//
// `offsets` are the exclusive prefix sums of the match counts by searching position, one longer than these; pairs are
// numbered by them, in the order (searching position, sorted position).
#include "expand_tile.cuh"

// Where a piece that begins at pair `from` should end: at the end of a position's pairs and after at most `target` pairs,
// or after at most `most` when one position alone has more. `out`: that pair.
// Bound: 6 loads that wait for one another at 10^8 positions. Launch: one block of 32 threads.
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

// The searching positions that have pairs in `from .. to`: `out[0] .. out[1]`.
// Bound: 12 loads that wait for one another at 10^8 positions. Launch: one block of 32 threads; from < to <= the total.
extern "C" __global__ void __launch_bounds__(WARP)
expand_window(const u64* __restrict__ offsets, u32 positions, u64 from, u64 to, u32* __restrict__ out) {
    const u32 first = warp_partition_point(0, positions, [&](u32 p) { return offsets[p + 1] <= from; });
    const u32 end = warp_partition_point(first, positions, [&](u32 p) { return offsets[p] < to; });
    if (threadIdx.x == 0) {
        out[0] = first;
        out[1] = end;
    }
}

// One tile: who owns each pair, then four pairs a thread at a time.
template <bool SORTED>
__device__ __forceinline__ void expand_one(const Window& window, const Tile& tile, Owners& owners,
                                           const u32* __restrict__ lo, const u32* __restrict__ searching_rows,
                                           const u32* __restrict__ sorted_rows, u32* __restrict__ out_searching,
                                           u32* __restrict__ out_sorted) {
    // The pair of slot 0; a tile's first pair may come up to 3 later.
    const u32 aligned = tile.pairs & ~3u;
#pragma unroll
    for (u32 i = 0; i < SLOTS_OF_THREAD / 8; i++) {
        reinterpret_cast<uint4*>(owners.place)[i * BLOCK + threadIdx.x] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();

    // The last position before the tile may have pairs in it.
    const u32 first = tile.positions == 0 ? 0 : tile.positions - 1;
    for (u32 place = threadIdx.x; first + place < tile.end_positions; place += BLOCK) {
        const u32 p = first + place;
        const u32 begin = max(window.pairs_before(p), tile.pairs);
        const u32 end = min(window.pairs_before(p + 1), tile.end_pairs);
        if (begin < end) {
            const u32 position = window.first + p;
            owners.place[begin - aligned] = u16(place);
            owners.ids[place] = searching_rows[position];
            if (SORTED) {
                // Wraps where the range begins after slot 0; adding the slot wraps back.
                owners.bases[place] = lo[position] + u32(window.from + aligned - window.offsets[position]);
            }
        }
    }
    __syncthreads();
    spread(owners);

    for (u32 slot = 4 * threadIdx.x; aligned + slot < tile.end_pairs; slot += 4 * BLOCK) {
        const u32 pair = aligned + slot;
        const uint2 two = *reinterpret_cast<const uint2*>(&owners.place[slot]);
        const u32 place[4] = {two.x & 0xFFFFu, two.x >> 16, two.y & 0xFFFFu, two.y >> 16};
        const bool whole = pair >= tile.pairs && pair + 4 <= tile.end_pairs;
        if (whole) {
            __stcs(reinterpret_cast<uint4*>(out_searching + pair),
                   make_uint4(owners.ids[place[0]], owners.ids[place[1]], owners.ids[place[2]], owners.ids[place[3]]));
            if (SORTED) {
                __stcs(reinterpret_cast<uint4*>(out_sorted + pair),
                       make_uint4(sorted_rows[owners.bases[place[0]] + slot], sorted_rows[owners.bases[place[1]] + slot + 1],
                                  sorted_rows[owners.bases[place[2]] + slot + 2],
                                  sorted_rows[owners.bases[place[3]] + slot + 3]));
            }
            continue;
        }
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (pair + i >= tile.pairs && pair + i < tile.end_pairs) {
                out_searching[pair + i] = owners.ids[place[i]];
                if (SORTED) {
                    out_sorted[pair + i] = sorted_rows[owners.bases[place[i]] + slot + i];
                }
            }
        }
    }
    __syncthreads();
}

// The block's share of a window's tiles: consecutive ones, WARPS - 1 at a time, whose limits its warps find together.
template <bool SORTED>
__device__ __forceinline__ void expand_share(Window window, u32 positions, const u32* __restrict__ lo,
                                             const u32* __restrict__ searching_rows,
                                             const u32* __restrict__ sorted_rows, u32* __restrict__ out_searching,
                                             u32* __restrict__ out_sorted) {
    __shared__ Owners owners;
    __shared__ u32 limits[WARPS];
    const u32 warp = threadIdx.x / WARP;
    const u32 lane = threadIdx.x % WARP;
    const u64* const offsets = window.offsets;
    if (warp < 2) {
        const u32 limit = warp == 0 ? warp_partition_point(0, positions, [&](u32 p) { return offsets[p + 1] <= window.from; })
                                    : warp_partition_point(0, positions, [&](u32 p) { return offsets[p] < window.to; });
        if (lane == 0) {
            limits[warp] = limit;
        }
    }
    __syncthreads();
    window.first = limits[0];
    window.positions = limits[1] - limits[0];
    __syncthreads();

    const u64 items = window.to - window.from + window.positions;
    const u32 tiles = u32((items + TILE_ITEMS - 1) / TILE_ITEMS);
    const u32 share = (tiles + gridDim.x - 1) / gridDim.x;
    const u32 end = min((blockIdx.x + 1) * share, tiles);
    for (u32 next = blockIdx.x * share; next < end; next += WARPS - 1) {
        const u32 limit = window.positions_before(min(u64(next + warp) * TILE_ITEMS, items));
        if (lane == 0) {
            limits[warp] = limit;
        }
        __syncthreads();
        for (u32 t = 0; t + 1 < WARPS && next + t < end; t++) {
            Tile tile;
            tile.positions = limits[t];
            tile.end_positions = limits[t + 1];
            tile.pairs = u32(u64(next + t) * TILE_ITEMS - tile.positions);
            tile.end_pairs = u32(min(u64(next + t + 1) * TILE_ITEMS, items) - tile.end_positions);
            if (tile.pairs < tile.end_pairs) {
                expand_one<SORTED>(window, tile, owners, lo, searching_rows, sorted_rows, out_searching, out_sorted);
            }
        }
        __syncthreads();
    }
}

// The pairs numbered `from .. from + len` of ranges: the searching row and the sorted row of each. Outputs are aligned to 16
// bytes.
// Bound: 8 bytes a pair written and 4 read (from L2 where ranges overlap), 16 bytes a position. Launch: 256 threads, a grid
// of any size: a block for each 4092 of `len` and the positions that may lie in the window, at most 5 a multiprocessor.
extern "C" __global__ void __launch_bounds__(BLOCK)
expand_ranges(const u32* __restrict__ lo, const u32* __restrict__ searching_rows, const u32* __restrict__ sorted_rows,
              const u64* __restrict__ offsets, u32 positions, u64 from, u32 len, u32* __restrict__ out_searching,
              u32* __restrict__ out_sorted) {
    expand_share<true>({offsets, from, from + len, 0, 0}, positions, lo, searching_rows, sorted_rows, out_searching,
                       out_sorted);
}

// The searching row of each of the pairs numbered `from .. from + len`.
// Bound: 4 bytes a pair written, 12 bytes a position. Launch: as expand_ranges.
extern "C" __global__ void __launch_bounds__(BLOCK)
expand_searching(const u32* __restrict__ searching_rows, const u64* __restrict__ offsets, u32 positions, u64 from, u32 len,
                 u32* __restrict__ out_searching) {
    expand_share<false>({offsets, from, from + len, 0, 0}, positions, nullptr, searching_rows, nullptr, out_searching,
                        nullptr);
}
