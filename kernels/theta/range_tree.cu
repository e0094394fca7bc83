// Folds over the positions of a range whose keys pass one inequality, by a layered range tree (Lueker 1978; Willard 1985), level by level.
//
// Positions are halved, from all of them down to single ones. A node has its positions in the order of their keys, so that those which pass a probe
// row's test are the first of it. A range is made up of at most two nodes a level, so the fold of a prefix of each is all that is read. How many of a
// prefix are in each half is the number of left ones before its end (fractional cascading). One level is held at a time.
//
// Construction of a level: range_tree_left and its scan; range_tree_split; range_tree_prefixes; range_tree_tiles if halves are longer than a tile.
#include "theta/range_tree.cuh"

// 1 for each place whose position is in the left half of its node, whose halves have 2^shift positions. Bound: 8n bytes moved. Launch: blocks of
// 256, a block for each 1024 places.
extern "C" __global__ void __launch_bounds__(BLOCK)
    range_tree_left(const u32* __restrict__ positions, u32 n, u32 shift, u32* __restrict__ marks) {
    each_row(
        n, [=](u32 i) { return positions[i] >> shift & 1 ^ 1; }, [=](u32 i, u32 mark) { marks[i] = mark; });
}

// The place in the level of what is at place `i` of the level above. `zeros`: the marks before each place.
__device__ __forceinline__ u32 place_below(u32 position, u32 i, const u32* zeros, u32 shift) {
    const u32 start = position >> (shift + 1) << (shift + 1);
    const u32 in_left = zeros[i] - start / 2;
    return (position >> shift & 1) == 0 ? start + in_left : (position >> shift << shift) + (i - start - in_left);
}

// Partitions the positions of each node into its halves, and their values with them. Bound: 12n bytes and twice the values moved. Launch: blocks of
// 256, a block for each 1024 places.
#define SPLIT(bits, T)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                      \
        range_tree_split##bits(const u32* __restrict__ positions, const T* __restrict__ values, const u32* __restrict__ zeros, \
                               u32 n, u32 shift, u32* __restrict__ out_positions, T* __restrict__ out_values) {              \
        each_row(                                                                                                            \
            n,                                                                                                               \
            [=](u32 i) {                                                                                                     \
                const u32 position = positions[i];                                                                           \
                return Placed<Placed<T>>{{values[i], position}, place_below(position, i, zeros, shift)};                     \
            },                                                                                                               \
            [=](u32, Placed<Placed<T>> to) {                                                                                 \
                out_positions[to.row] = to.value.row;                                                                        \
                out_values[to.row] = to.value.value;                                                                         \
            });                                                                                                              \
    }

SPLIT(32, u32)
SPLIT(64, u64)
SPLIT(128, uint4)

// range_tree_prefixes: the fold of each half up to each of its places, in tiles of 2048. Bound: twice the values moved. Launch: 256 threads, a block
// for each tile; `totals` may be null.
// range_tree_tiles: the folds of halves of 2^shift tiles up to the ends of these. Launch: one block of 256.
// range_tree_descend: one level of each probe position's edges. Bound: for each edge two sectors of 32 bytes at random, and 16 bytes. Launch: blocks
// of 256, a thread for each probe position; `tiles` may be null.
#define TREE(name, Fold)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                       \
        range_tree_prefixes_##name(const Fold::Value* __restrict__ values, u32 n, u32 shift, Fold::Value* __restrict__ prefixes, \
                                   Fold::Value* __restrict__ totals) {                                                        \
        write_prefixes<Fold>(values, n, shift, prefixes, totals);                                                             \
    }                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(BLOCK) range_tree_tiles_##name(Fold::Value* totals, u32 tiles, u32 shift) {  \
        add_up_tiles<Fold>(totals, tiles, shift);                                                                             \
    }                                                                                                                         \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                       \
        range_tree_descend_##name(const u32* __restrict__ zeros, const Fold::Value* __restrict__ prefixes,                    \
                                  const Fold::Value* __restrict__ tiles, u32 shift, const u32* __restrict__ lo,               \
                                  const u32* __restrict__ hi, u32* __restrict__ of_lo, u32* __restrict__ of_hi,               \
                                  Fold::Value* __restrict__ folded, u32* __restrict__ some, u32 m) {                          \
        descend<Fold>({zeros, prefixes, tiles, shift}, lo, hi, of_lo, of_hi, folded, some, m);                                \
    }

TREE(u32, Sums<u32>)
TREE(u64, Sums<u64>)
TREE(u128, Sums<u128>)
TREE(f64, Sums<f64>)
TREE(extreme, Extremes)

// The edges of each range at the root, and its neutral fold: a range that begins at 0, or ends at n, has no such edge. `bounds` are the numbers of
// keys in their order that are below each probe row's; with `others` not 0, the rest pass. Bound: 20 bytes a range. Launch: blocks of 256, a block
// for each 1024 ranges.
extern "C" __global__ void __launch_bounds__(BLOCK)
    range_tree_edges(const u32* __restrict__ lo, const u32* __restrict__ hi, const u32* __restrict__ bounds, u32 others, u32 n,
                     u32* __restrict__ of_lo, u32* __restrict__ of_hi, u32 m) {
    each_row(
        m,
        [=](u32 i) {
            const u32 from = lo[i], to = hi[i], bound = bounds[i];
            const u32 below = from < to ? (others != 0 ? n - bound : bound) : 0;
            return make_uint2(from > 0 ? below : 0, from > 0 && to >= n ? 0 : below);
        },
        [=](u32 i, uint2 below) {
            of_lo[i] = below.x;
            of_hi[i] = below.y;
        });
}

// Row ids in the opposite order. Bound: 8n bytes. Launch: blocks of 256, a block for each 1024 of them.
extern "C" __global__ void __launch_bounds__(BLOCK)
    range_tree_reverse(const u32* __restrict__ ids, u32* __restrict__ out, u32 n) {
    each_row(
        n, [=](u32 i) { return ids[n - 1 - i]; }, [=](u32 i, u32 id) { out[i] = id; });
}

// The number of ranges that begin, and that end, at each position: both arrays hold 0 first. Bound: 8 bytes read and two words updated at random a
// range. Launch: blocks of 256, a block for each 1024 ranges.
extern "C" __global__ void __launch_bounds__(BLOCK)
    range_tree_ends(const u32* __restrict__ lo, const u32* __restrict__ hi, u32* __restrict__ begins, u32* __restrict__ ends, u32 m) {
    each_row(
        m, [=](u32 i) { return make_uint2(lo[i], hi[i]); },
        [=](u32, uint2 range) {
            atomicAdd(begins + range.x, 1u);
            atomicAdd(ends + range.y, 1u);
        });
}

// Candidates in the order of `rows`: the order keys of rows, inverted if the greatest is wanted (`invert` not 0); rows that are not valid are "no
// row". Bound: 4 bytes and one random key and bit read, 16 bytes written a row. Launch: blocks of 256, a block for each 1024 rows; `valid` may be
// null.
extern "C" __global__ void __launch_bounds__(BLOCK)
    range_tree_candidates(const u64* __restrict__ keys, const u32* __restrict__ valid, const u32* __restrict__ rows, u32 invert,
                          KeyedRow* __restrict__ out, u32 n) {
    each_row(
        n,
        [=](u32 i) {
            const u32 row = rows[i];
            const u64 key = keys[row];
            return bit_at(valid, row) ? KeyedRow{invert != 0 ? ~key : key, row, 0} : Extremes::zero();
        },
        [=](u32 i, KeyedRow candidate) { out[i] = candidate; });
}

// Stores folds at the rows of their positions; other rows keep what they have. Bound: 4 bytes and twice the values a position. Launch: blocks of 256,
// a block for each 1024 positions.
#define PLACE(bits, T)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                      \
        range_tree_place##bits(const T* __restrict__ folded, const u32* __restrict__ rows, T* __restrict__ out, u32 m) {     \
        each_row(                                                                                                            \
            m, [=](u32 i) { return Placed<T>{folded[i], rows[i]}; }, [=](u32, Placed<T> to) { out[to.row] = to.value; });    \
    }

PLACE(32, u32)
PLACE(64, u64)
PLACE(128, uint4)

// The rows of extremes, at the rows of their positions. As above.
extern "C" __global__ void __launch_bounds__(BLOCK)
    range_tree_place_extreme(const KeyedRow* __restrict__ folded, const u32* __restrict__ rows, u32* __restrict__ out, u32 m) {
    each_row(
        m, [=](u32 i) { return Placed<u32>{folded[i].row, rows[i]}; }, [=](u32, Placed<u32> to) { out[to.row] = to.value; });
}
