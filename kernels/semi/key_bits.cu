// Key bitmaps: whether a side has a key, by direct address. The bit index of a key is its distance from the least key.
// Several columns are the digits of one number; where NULLs are equal, a NULL is one more digit of its column. 2^28
// keys have a bitmap of 32 MB, which fits the L2 cache of a large card; a table of positions would not.
#include "shared/units.cuh"

// "No bit": the key is outside of the range, or is a NULL that equals nothing.
constexpr u32 NO_PLACE = 0xFFFFFFFFu;

// Key columns of one side, as digits of the other side's range.
template <typename T>
struct Digits {
    const T* values;
    const u32* valid;
    // The sign bit for signed types, otherwise 0.
    u64 sign;
    u64 least;
    // The number of values from the least to the greatest.
    u32 count;
    // The digit of a NULL, or NO_PLACE.
    u32 null_digit;

    // In words of the values' own width: a key below the least one wraps around and is out of range like a key above
    // the greatest.
    __device__ __forceinline__ u32 of(T value, bool is_valid) const {
        const WordOf<T> distance = ((WordOf<T>)value ^ (WordOf<T>)sign) - (WordOf<T>)least;
        const u32 digit = distance < count ? (u32)distance : NO_PLACE;
        return is_valid ? digit : null_digit;
    }

    // A streaming load: keys are read once, and the cache should hold the bitmap.
    __device__ __forceinline__ u32 at(u32 i) const { return of(__ldcs(values + i), bit_at(valid, i)); }
};

// The index of the word that holds a bit; for NO_PLACE that of any word.
__device__ __forceinline__ u32 word_of(u32 place) {
    return place == NO_PLACE ? 0 : place / WARP;
}

__device__ __forceinline__ bool is_set(u32 word, u32 place) {
    return place != NO_PLACE && (word >> (place % WARP) & 1u) != 0;
}

// Sets each lane's bits of word `at`, if it has any. Keys in order have neighbouring bits: adjacent lanes with the same
// word set it with one atomic. A lane without bits is not merged with its neighbours, as lanes whose units have no
// second word would form one long run.
__device__ __forceinline__ void set_word(u32* bits, u32 at, u32 set) {
    const u32 lane = threadIdx.x % WARP;
    const u32 before = __shfl_up_sync(ALL_LANES, at, 1);
    const u32 firsts = __ballot_sync(ALL_LANES, lane == 0 || set == 0 || before != at);
    if (firsts != ALL_LANES) {
        const u32 later = firsts & (ALL_LANES - 1) << lane;
        const u32 end = later == 0 ? WARP : __ffs(later) - 1;
#pragma unroll
        for (u32 lanes = 1; lanes < WARP; lanes *= 2) {
            const u32 others = __shfl_down_sync(ALL_LANES, set, lanes);
            set |= lane + lanes < end ? others : 0;
        }
    }
    if ((firsts >> lane & 1u) != 0 && set != 0) {
        atomicOr(bits + at, set);
    }
}

// Sets the bits of the places of a unit that are selected by `left`.
__device__ __forceinline__ void set_places(u32* bits, const u32 (&places)[UNIT], u32 left) {
    const u32 apart = (places[0] ^ places[1]) | (places[0] ^ places[2]) | (places[0] ^ places[3]);
    if (__all_sync(ALL_LANES, left == ALL_OF_UNIT && apart < WARP)) {
        u32 set = 0;
#pragma unroll
        for (u32 l = 0; l < UNIT; l++) {
            set |= 1u << (places[l] % WARP);
        }
        set_word(bits, places[0] / WARP, set);
        return;
    }
    while (__any_sync(ALL_LANES, left != 0)) {
        // The word of the lane's first remaining place, and all of the lane's bits in that word.
        u32 at = NO_PLACE;
        u32 set = 0;
#pragma unroll
        for (u32 l = 0; l < UNIT; l++) {
            if ((left >> l & 1u) != 0 && (at == NO_PLACE || at == places[l] / WARP)) {
                at = places[l] / WARP;
                set |= 1u << (places[l] % WARP);
                left &= ~(1u << l);
            }
        }
        set_word(bits, at, set);
    }
}

// The bits of a tile are tested before they are set. With repeated keys most bits are soon set, and atomics would queue
// at hot words. A warp that found nearly none set in two tiles tests only every eighth tile, as a test costs as much as
// it saves.
constexpr u32 FRESH_TILES = 2;
constexpr u32 LOOK_EVERY = 8;
constexpr u32 KNOWN_SHARE = 16;

template <typename T>
__device__ __forceinline__ void set_bits(Digits<T> keys, u32 n, u32* bits, u64* extents) {
    const u32 tiles = (n + UNIT_TILE - 1) / UNIT_TILE;
    Extent<T> extent;
    u32 fresh = 0;
    u32 turn = 0;
    Units<T> next;
    if (blockIdx.x < tiles) {
        next.load(keys.values, keys.valid, n, blockIdx.x);
    }
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn++) {
        const bool look = fresh < FRESH_TILES || turn % LOOK_EVERY == 0;
        const Units<T> units = next;
        if (tile + gridDim.x < tiles) {
            next.load(keys.values, keys.valid, n, tile + gridDim.x);
        }
#pragma unroll
        for (u32 k = 0; k < UNITS; k++) {
            const u32 inside = units.inside(k, n);
            u32 places[UNIT];
            u32 placed = 0;
            u32 known = 0;
#pragma unroll
            for (u32 l = 0; l < UNIT; l++) {
                places[l] = keys.of(units.values[k][l], (units.valid[k] >> l & 1u) != 0);
                placed |= (places[l] != NO_PLACE) << l;
            }
            placed &= inside;
            const u32 outside = units.valid[k] & inside & ~placed;
            if (extents != nullptr && outside != 0) {
                extent.add(units.values[k], outside, keys.sign);
            }
            if (look) {
                u32 words[UNIT];
#pragma unroll
                for (u32 l = 0; l < UNIT; l++) {
                    // Loads from L2: lines that the block keeps in L1 would be stale.
                    words[l] = __ldcg(bits + word_of(places[l]));
                }
#pragma unroll
                for (u32 l = 0; l < UNIT; l++) {
                    known |= (u32)is_set(words[l], places[l]) << l;
                }
                known &= placed;
                if (k == 0) {
                    const u32 of_known = __popc(__ballot_sync(ALL_LANES, (known & 1u) != 0));
                    const u32 of_all = __popc(__ballot_sync(ALL_LANES, (placed & 1u) != 0));
                    fresh = of_known * KNOWN_SHARE < of_all ? fresh + 1 : 0;
                }
            }
            set_places(bits, places, placed & ~known);
        }
    }
    if (extents != nullptr) {
        extent.join(extents);
    }
}

template <typename T>
__device__ __forceinline__ void test_bits(Digits<T> keys, u32 n, const u32* bits, u32* flags) {
    each_word(
        n,
        [=](u32 i) {
            const u32 place = keys.at(i);
            return is_set(__ldg(bits + word_of(place)), place);
        },
        [=](u32 w, u32 word) { __stcs(flags + w, word); });
}

// `digit` times `stride`, added to the place from other columns; NO_PLACE if either has none.
__device__ __forceinline__ u32 with_digit(u32 digit, u32 stride, u32 place) {
    return digit == NO_PLACE || place == NO_PLACE ? NO_PLACE : place + digit * stride;
}

// All of these kernels take keys of the named width in bits with their validity bits (null: all valid), `sign`, the
// least key, the number of values from it to the greatest key (fewer than 2^32 - 1), and the digit of a NULL, which is
// NO_PLACE where it equals nothing.
//
// key_bits_set*: sets the bit of each key. `extents`, if not null, becomes the range of the keys that have no bit, as
// group_range_extent* computes it.
// Bound: the keys read once, and for each key a test of a 32-byte sector in L2, an atomic there, or both; for ascending
// keys one atomic for each word. Launch: blocks of 256, a grid of any size (as many blocks as are resident).
//
// key_bits_test*: bit i of `flags` becomes the bit of key i; bits past the end become 0. Bound: the keys read once, an
// L2 sector read for each, and a bit written. Launch: blocks of 256, a block for each 1024 rows.
//
// key_bits_places*: places[i] becomes the digit times `stride`, added to its previous value if `add` is not 0, or
// NO_PLACE. All places are below 2^32 - 1. Bound: a value read and 4 bytes written for each row, 4 more read to add.
// Launch: as key_bits_test*.
#define KEY_BITS(width, T)                                                                                             \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                \
        key_bits_set##width(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign, u64 least,   \
                            u32 count, u32 null_digit, u32* bits, u64* extents) {                                      \
        set_bits(Digits<T>{values, valid, sign, least, count, null_digit}, n, bits, extents);                          \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                \
        key_bits_test##width(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign, u64 least,  \
                             u32 count, u32 null_digit, const u32* __restrict__ bits, u32* __restrict__ flags) {       \
        test_bits(Digits<T>{values, valid, sign, least, count, null_digit}, n, bits, flags);                           \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(BLOCK)                                                                \
        key_bits_places##width(const T* __restrict__ values, const u32* __restrict__ valid, u32 n, u64 sign,           \
                               u64 least, u32 count, u32 null_digit, u32 stride, u32 add, u32* places) {               \
        const Digits<T> keys{values, valid, sign, least, count, null_digit};                                           \
        each_row(                                                                                                      \
            n, [=](u32 i) { return with_digit(keys.at(i), stride, add != 0 ? places[i] : 0); },                        \
            [=](u32 i, u32 place) { places[i] = place; });                                                             \
    }

KEY_BITS(8, u8)
KEY_BITS(16, u16)
KEY_BITS(32, u32)
KEY_BITS(64, u64)

// The places of Booleans, whose digits are 0 and 1.
extern "C" __global__ void __launch_bounds__(BLOCK)
    key_bits_places_bool(const u32* __restrict__ values, const u32* __restrict__ valid, u32 n, u32 null_digit, u32 stride,
                         u32 add, u32* places) {
    each_row(
        n,
        [=](u32 i) {
            const u32 digit = bit_at(valid, i) ? (u32)bit_at(values, i) : null_digit;
            return with_digit(digit, stride, add != 0 ? places[i] : 0);
        },
        [=](u32 i, u32 place) { places[i] = place; });
}
